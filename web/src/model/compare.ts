/** Two branches side by side: rows as people read them, and the first cause of the difference. */

import type { components } from "../api/schema";
import { plainName } from "./names";
import { oneLine } from "./values";

type Comparison = components["schemas"]["ComparisonView"];
type Compared = components["schemas"]["ComparedEventView"];
type EventView = components["schemas"]["EventView"];
export type Verdict = Compared["verdict"];

/** One side of a row: an event, or consecutive events of one node that only this side has. */
export interface Cell {
  first: number;
  last: number;
  /** The node, or empty. */
  name: string;
  what: string;
  attempt: number;
  by: string;
  /** More about it: why a branch was opened, what a node was given. */
  note: string;
  values: { path: string; value: unknown }[];
}

export interface CompareRow {
  verdict: Verdict;
  left: Cell | null;
  right: Cell | null;
}

const NODE_WORDS: Record<string, string> = {
  NodeScheduled: "scheduled",
  NodeStarted: "started",
  NodeCheckpointed: "saved a checkpoint",
  NodeCompleted: "completed",
  NodeFailed: "failed",
  NodeSkipped: "skipped",
};
const WORDS: Record<string, string> = {
  RunCreated: "The run was created",
  RunStarted: "The run started",
  RunCompleted: "The run completed",
  RunFailed: "The run failed",
  RunCancelled: "The run was cancelled",
  RunPaused: "The run was paused",
  RunTakenOver: "A worker took the run over",
};

const fieldsOf = (event: EventView): Record<string, unknown> => event.fields as Record<string, unknown>;
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const has = (value: unknown): boolean => value !== null && value !== undefined;

function cellOf(event: EventView, changes: { path: string; value: unknown }[]): Cell {
  const fields = fieldsOf(event);
  const node = textOf(fields.node);
  const word = NODE_WORDS[event.type];
  const isOfNode = node !== "" && word !== undefined;
  const isBranch = event.type === "BranchOpened";
  return {
    ...{ first: event.seq, last: event.seq },
    name: isOfNode ? plainName(node) : "",
    what: isOfNode
      ? word
      : isBranch
        ? `Branch ${fields.branch} was opened`
        : (WORDS[event.type] ?? (event.text || event.type)),
    attempt: isOfNode && typeof fields.attempt === "number" ? fields.attempt : 1,
    by: textOf(fields.by),
    note: isBranch ? opening(fields) : "",
    values: changes,
  };
}

function opening(fields: Record<string, unknown>): string {
  const redo = ((fields.redo as string[] | undefined) ?? []).map(plainName).join(", ");
  const reason = textOf(fields.reason);
  const where = fields.cutoff ? `after event ${fields.cutoff}` : "at the start";
  return `${textOf(fields.cause)}${redo ? ` to ${redo}` : ""}, ${where}${reason ? `: “${reason}”` : ""}`;
}

/** What a row of one side alone shows: what came of it. */
function ownValues(event: EventView): { path: string; value: unknown }[] {
  const fields = fieldsOf(event);
  const names =
    event.type === "NodeScheduled"
      ? ["inputs", "feedback"]
      : ["output", "answer", "error"].filter((name) => name in fields);
  return names.filter((name) => has(fields[name])).map((name) => ({ path: name, value: shownValue(fields[name]) }));
}

const shownValue = (value: unknown): unknown =>
  typeof value === "object" && value !== null && "message" in value && "kind" in value
    ? (value as { message: unknown }).message
    : value;

function rowOf(row: Compared): CompareRow {
  const { left, right, verdict } = row;
  const side = (event: EventView | null, which: "old" | "new"): Cell | null =>
    event &&
    cellOf(
      event,
      verdict === "differs"
        ? row.changes
            .filter((change) => which in change && change.path !== "attempt")
            .map((change) => ({ path: change.path, value: change[which] }))
        : verdict === "same"
          ? []
          : ownValues(event),
    );
  return { verdict, left: side(left, "old"), right: side(right, "new") };
}

/** The rows, with consecutive events of one node that only one side has as one. */
export function compareRows(comparison: Comparison): CompareRow[] {
  const found: CompareRow[] = [];
  for (const each of comparison.rows) {
    const row = rowOf(each);
    const before = found.at(-1);
    const side = row.verdict === "left" || row.verdict === "right" ? row.verdict : null;
    const cell = side && row[side];
    const last = side && before?.verdict === side ? before[side] : null;
    if (cell && last && cell.name !== "" && cell.name === last.name && cell.attempt === last.attempt) {
      last.last = cell.last;
      last.what = `${last.what}, ${cell.what}`;
      last.values = [...last.values, ...cell.values];
    } else found.push(row);
  }
  return found;
}

/** Why the right side became another: the first thing that only it was given. */
export function firstCause(comparison: Comparison): { node: string; what: string; value: unknown } | null {
  for (const { verdict, right } of comparison.rows) {
    if (verdict === "same" || !right) continue;
    const fields = fieldsOf(right);
    const node = plainName(textOf(fields.node));
    if (right.type === "NodeScheduled" && has(fields.inputs))
      return { node, what: "was called with", value: fields.inputs };
    if (right.type === "NodeScheduled" && has(fields.feedback))
      return { node, what: "got the feedback", value: fields.feedback };
    if (right.type === "NodeCompleted" && textOf(fields.by))
      return { node, what: "was given the result", value: fields.output };
    if (right.type === "InteractionAnswered")
      return { node: plainName(textOf(fields.interaction)), what: "was answered with", value: fields.answer };
    if (right.type === "VersionChanged")
      return { node: "", what: "The code of the workflow was another one", value: undefined };
    if (right.type === "NodeCompleted" || right.type === "NodeFailed")
      return {
        node,
        what: right.type === "NodeCompleted" ? "returned" : "failed:",
        value: shownValue(fields.output ?? fields.error),
      };
  }
  return null;
}

/** How a side ended: its result or its error, as text. */
export function endingOf(comparison: Comparison, side: "left" | "right"): { text: string; hasResult: boolean } {
  for (const row of comparison.rows.toReversed()) {
    const event = row[side];
    if (!event) continue;
    const fields = fieldsOf(event);
    if (event.type === "RunCompleted") {
      const { output } = fields;
      return { text: typeof output === "string" ? output : oneLine(output, 300).text, hasResult: true };
    }
    if (event.type === "RunFailed") return { text: String(shownValue(fields.error) ?? ""), hasResult: true };
  }
  return { text: comparison[side].ending ?? "it has not ended", hasResult: false };
}
