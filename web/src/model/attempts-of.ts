/** What a node was given and what it returned, attempt by attempt, on all branches. */

import { type Failure, failure, type LogEvent, number, text } from "./events";

export interface NodeAttempt {
  attempt: number;
  branch: number;
  /** Its first and its newest event. */
  first: number;
  last: number;
  started: number | null;
  ended: number | null;
  inputs?: unknown;
  output?: unknown;
  feedback?: unknown;
  checkpoint?: unknown;
  error: Failure | null;
  /** Who gave the result in place of the node. */
  by: string;
  /** The event whose result it took over, or 0. */
  adopted: number;
}

/** All nodes of a log, in the order they began, with their attempts. */
export function attemptsByNode(events: readonly LogEvent[]): Map<string, NodeAttempt[]> {
  const found = new Map<string, NodeAttempt[]>();
  for (const event of events) {
    if (!event.type.startsWith("Node") || event.type === "NodesRetired") continue;
    const node = text(event, "node");
    const own = found.get(node) ?? [];
    if (!own.length) found.set(node, own);
    const attempt = number(event, "attempt", 1);
    let current = own.findLast((each) => each.attempt === attempt && each.branch === event.branch);
    if (!current) {
      // It may have begun before its branch opened.
      const before = event.type === "NodeScheduled" ? undefined : own.findLast((each) => each.attempt === attempt);
      current = before
        ? { ...before, branch: event.branch, first: before.ended === null ? before.first : event.seq }
        : {
            ...{ attempt, branch: event.branch, first: event.seq, last: event.seq },
            ...{ started: null, ended: null, error: null, by: "", adopted: 0 },
          };
      if (before && before.ended === null) own[own.indexOf(before)] = current;
      else own.push(current);
    }
    take(current, event);
  }
  return found;
}

function take(attempt: NodeAttempt, event: LogEvent): void {
  const { fields } = event;
  attempt.last = event.seq;
  switch (event.type) {
    case "NodeScheduled":
      if (fields.feedback !== null && fields.feedback !== undefined) attempt.feedback = fields.feedback;
      break;
    case "NodeStarted":
      attempt.started = event.time / 1000;
      attempt.inputs = fields.inputs;
      break;
    case "NodeCheckpointed":
      attempt.checkpoint = fields.data;
      break;
    case "NodeCompleted":
      attempt.ended = event.time / 1000;
      attempt.output = fields.output;
      attempt.by = text(event, "by");
      attempt.adopted = number(event, "adopted");
      break;
    case "NodeFailed":
      attempt.ended = event.time / 1000;
      attempt.error = failure(event);
      break;
  }
}
