import {
  CircleCheck,
  CircleDashed,
  CircleX,
  Hourglass,
  LoaderCircle,
  type LucideIcon,
  MessageCircleQuestionMark,
  RotateCw,
  Undo2,
} from "lucide-react";
import type { Interval } from "@/model/events";
import { type Row, took } from "@/model/rows";
import { isLeft } from "@/model/timeline";

export type PartState = "done" | "run" | "wait" | "fail" | "undo" | "idle" | "retry";

export interface PartLook {
  state: PartState;
  icon: LucideIcon;
  word: string;
  attempt: number;
  ms: number | null;
}

/** What matters most first: several parts together have the first of their states. */
export const ORDER: readonly PartState[] = ["fail", "wait", "run", "retry", "undo", "done", "idle"];

const ICONS: Record<PartState, LucideIcon> = {
  done: CircleCheck,
  run: LoaderCircle,
  wait: Hourglass,
  fail: CircleX,
  undo: Undo2,
  idle: CircleDashed,
  retry: RotateCw,
};

/** The border and background of a part by its state: filled only where something is at work or somebody has to act. */
export const BOXES: Record<PartState, string> = {
  done: "border-line-strong bg-surface",
  run: "border-run-bar bg-run-tint",
  wait: "border-wait-bar bg-wait-tint",
  fail: "border-fail-bar bg-fail-tint",
  undo: "border-undo-bar bg-surface",
  idle: "border-line bg-surface",
  retry: "border-wait-bar bg-surface",
};

export const COLOURS: Record<PartState, string> = {
  done: "text-done",
  run: "text-run",
  wait: "text-wait",
  fail: "text-fail",
  undo: "text-undo",
  idle: "text-text-3",
  retry: "text-wait",
};

export function lookOf(row: Row, intervals: readonly Interval[], now: number): PartLook {
  const time = took(row, intervals, now);
  const last = row.attempts.findLast((attempt) => !isLeft(attempt, intervals)) ?? row.attempts.at(-1);
  const state = row.rows.length ? groupState(row, intervals) : stateOf(row, intervals);
  const words: Record<PartState, string> = {
    done: "completed",
    run: "at work",
    wait: "waiting",
    fail: "failed",
    undo: "compensated",
    idle: last?.outcome ?? row.waits.at(-1)?.outcome ?? "not begun",
    retry: "is tried again",
  };
  const icon = row.kind === "wait" && state === "wait" ? MessageCircleQuestionMark : ICONS[state];
  return { state, icon, word: words[state], attempt: last?.attempt ?? 1, ms: time?.ms ?? null };
}

export function stateOf(row: Row, intervals: readonly Interval[]): PartState {
  const last = row.attempts.findLast((attempt) => !isLeft(attempt, intervals)) ?? row.attempts.at(-1);
  const wait = row.waits.at(-1);
  if (wait && (!last || wait.to === null)) {
    if (wait.to === null) return wait.kind === "child" ? "run" : "wait";
    if (wait.outcome === "failed") return "fail";
    return wait.outcome === "withdrawn" || wait.outcome === "cancelled" ? "idle" : "done";
  }
  switch (last?.outcome) {
    case "completed":
      return last.isCompensation ? "undo" : "done";
    case "running":
    case "queued":
      return "run";
    case "failed":
    case "lost":
      return "fail";
    case "retrying":
      return "retry";
    default:
      return "idle";
  }
}

/** The state of a group is the one of its parts that matters most. */
function groupState(row: Row, intervals: readonly Interval[]): PartState {
  const states = new Set(
    row.rows.map((each) => (each.rows.length ? groupState(each, intervals) : stateOf(each, intervals))),
  );
  return (
    (["fail", "wait", "run", "retry", "undo", "done", "idle"] as const).find((state) => states.has(state)) ?? "idle"
  );
}
