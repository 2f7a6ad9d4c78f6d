/** The bars of the timeline: attempts and waits as pieces with a place in pixels. */

import type { Axis } from "./axis";
import type { Attempt, WaitBar } from "./timeline";

export type PieceKind = "queued" | "own" | "running" | "engine" | "failed" | "lost" | "undo" | "retry" | "wait";

export interface Piece {
  kind: PieceKind;
  x: number;
  width: number;
}

/** Bars are at least so wide, so that one can press them. */
export const LEAST = 4;

/** An attempt split into the time in the queue, its own work, what the engine took to record it, and the time before the next. */
export function piecesOf(attempt: Attempt, axis: Axis, now: number): Piece[] {
  const { scheduled, started, ended, own, retryAt, outcome } = attempt;
  const pieces: Piece[] = [];
  const put = (kind: PieceKind, from: number, to: number, least = 0) => {
    if (to < axis.from || from > axis.to) return;
    const x = axis.x(from);
    const width = Math.max(least, axis.x(to) - x);
    if (width > 0) pieces.push({ kind, x, width });
  };
  put("queued", scheduled, started ?? ended ?? now);
  if (started === null) return pieces;
  const end = ended ?? now;
  const worked = own > 0 && ended !== null ? Math.min(end, started + own) : end;
  put(kindOf(attempt), started, worked, LEAST);
  if (worked < end && outcome !== "lost") put("engine", worked, end);
  if (retryAt !== null && outcome === "retrying") put("retry", end, Math.max(end, retryAt));
  return pieces;
}

function kindOf({ outcome, isCompensation }: Attempt): PieceKind {
  if (outcome === "failed" || outcome === "retrying") return "failed";
  if (outcome === "lost" || outcome === "running") return outcome;
  return isCompensation ? "undo" : "own";
}

export function waitPiece(wait: WaitBar, axis: Axis, now: number): Piece | null {
  const to = wait.to ?? Math.max(now, wait.from);
  if (to < axis.from || wait.from > axis.to) return null;
  const x = axis.x(wait.from);
  return { kind: "wait", x, width: Math.max(LEAST, axis.x(to) - x) };
}

/** How many attempts were at work at each of the columns of `size` pixels. */
export function density(
  attempts: readonly Attempt[],
  axis: Axis,
  now: number,
  size = 3,
): { x: number; counts: number[] } {
  const steps = new Float64Array(Math.ceil(axis.width / size) + 2);
  let first = steps.length;
  let last = 0;
  for (const { started, ended } of attempts) {
    if (started === null || started > axis.to || (ended ?? now) < axis.from) continue;
    const from = Math.floor(axis.x(started) / size);
    const to = Math.min(steps.length - 1, Math.max(from + 1, Math.ceil(axis.x(ended ?? now) / size)));
    steps[from] = (steps[from] ?? 0) + 1;
    steps[to] = (steps[to] ?? 0) - 1;
    first = Math.min(first, from);
    last = Math.max(last, to);
  }
  const counts: number[] = [];
  let sum = 0;
  for (let at = first; at < last; at++) {
    sum += steps[at] ?? 0;
    counts.push(sum);
  }
  return { x: first * size, counts };
}
