/** A run at one instant, as the page describes it: now, from what the server told, or in the past, folded from the log. */

import type { components } from "../api/schema";
import { type Failure, micros } from "./events";
import type { RunStatus, State, WaitKind } from "./fold";
import type { RunLog } from "./run-log";

type Detail = components["schemas"]["RunDetailView"];

export interface OpenWait {
  kind: WaitKind;
  id: string;
  node: string;
  text: string;
  /** In milliseconds since 1970. */
  since: number | null;
  due: number | null;
}

export interface WorkingNode {
  node: string;
  attempt: number;
  crashes: number;
  began: number;
  error: Failure | null;
}

export interface Snapshot {
  status: RunStatus;
  held: boolean;
  recoverable: boolean;
  reason: string;
  error: (Failure & { node: string | null }) | null;
  branch: number;
  created: number;
  /** The newest event. */
  updated: number;
  at: number;
  doneNodes: number;
  allNodes: number;
  children: number;
  waits: OpenWait[];
  waiting: number;
  working: WorkingNode[];
  /** The node that the run failed in, or stopped inside. */
  failed: WorkingNode | null;
  result: unknown;
  successor: string | null;
}

const ms = (iso: string | null): number => micros(iso) / 1000;
const OPEN = new Set(["running", "scheduled"]);

export function snapshotOf(detail: Detail): Snapshot {
  const nodes = detail.nodes.map((each) => ({ ...each, began: ms(each.began), error: each.error as Failure | null }));
  const { status, held, recoverable, reason, branch, at, waiting, result, successor } = detail;
  return {
    ...{ status, held, recoverable, reason, branch, at, waiting, result, successor },
    error: detail.error,
    created: ms(detail.created),
    updated: ms(detail.updated),
    doneNodes: detail.done_nodes,
    allNodes: nodes.length + detail.retired_nodes,
    children: detail.children.length,
    waits: detail.waits.map(
      (each) => ({ ...each, since: each.since && ms(each.since), due: each.due && ms(each.due) }) as OpenWait,
    ),
    working: held || status === "failed" ? [] : nodes.filter((node) => OPEN.has(node.status)),
    failed: nodes.find((node) => node.node === detail.error?.node) ?? null,
  };
}

export function snapshotAt(state: State, log: RunLog): Snapshot {
  const { status, held, recoverable, reason, branch, output, successor } = state;
  const nodes = [...state.nodes].map(([node, each]) => {
    const { attempt, crashes, error } = each;
    return { node, attempt, crashes, error, status: each.status, began: (log.event(each.seq)?.time ?? 0) / 1000 };
  });
  const waits = [...state.waits.values()].map(({ kind, id, node, text, since, due }) => ({
    ...{ kind, id, node, text, since: since / 1000, due: due === null ? null : due / 1000 },
  }));
  return {
    ...{ status, held, recoverable, reason, branch, waits, waiting: waits.length },
    error: state.error && { ...state.error, node: state.failed_node || null },
    created: state.created / 1000,
    updated: state.time / 1000,
    at: state.seq,
    doneNodes: state.done_nodes,
    allNodes: nodes.length,
    children: state.children.size,
    working: held || status === "failed" ? [] : nodes.filter((node) => OPEN.has(node.status)),
    failed: nodes.find((node) => node.node === state.failed_node) ?? null,
    result: output,
    successor: successor || null,
  };
}
