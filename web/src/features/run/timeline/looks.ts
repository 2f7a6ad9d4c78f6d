import {
  AlarmClock,
  ArrowRightLeft,
  Ban,
  CircleCheck,
  CirclePause,
  CircleX,
  Clock,
  CornerDownRight,
  GitBranch,
  Hand,
  Hourglass,
  Layers,
  type LucideIcon,
  Radio,
  RotateCw,
  Unplug,
} from "lucide-react";
import type { PieceKind } from "@/model/bars";
import type { MarkKind, SpanKind } from "@/model/timeline";

/** What the run did: its icon, its colour in the strip, and its word in the totals. */
export const SPANS: Record<SpanKind, { icon: LucideIcon; colour: string; bar: string; text: string }> = {
  queued: { icon: Clock, colour: "text-text-2", bar: "bg-line", text: "Queued" },
  work: { icon: Layers, colour: "text-text", bar: "bg-ink", text: "At work" },
  person: { icon: Hourglass, colour: "text-wait", bar: "bg-wait-bar", text: "Waiting for a person" },
  timer: { icon: AlarmClock, colour: "text-wait", bar: "bar-waiting", text: "Asleep" },
  retry: { icon: RotateCw, colour: "text-wait", bar: "bg-wait-tint", text: "Before the next attempt" },
  signal: { icon: Radio, colour: "text-wait", bar: "bg-wait-bar", text: "Waiting for a signal" },
  child: { icon: CornerDownRight, colour: "text-run", bar: "bg-run-bar", text: "Waiting for child runs" },
  nobody: { icon: Unplug, colour: "text-fail", bar: "bar-lost", text: "Nobody worked on it" },
  paused: { icon: CirclePause, colour: "text-text-2", bar: "bg-idle-bar", text: "Paused" },
  held: { icon: Hand, colour: "text-held", bar: "bg-held-bar", text: "Held" },
  failed: { icon: CircleX, colour: "text-fail", bar: "bg-fail-bar", text: "Failed, until it was resumed" },
  cancelled: { icon: Ban, colour: "text-text-2", bar: "bg-idle-bar", text: "Cancelled" },
  completed: {
    icon: CircleCheck,
    colour: "text-text-2",
    bar: "bg-done-tint",
    text: "Completed, until somebody went back",
  },
};

export const MARKS: Record<MarkKind, { icon: LucideIcon; hue: string; text: string }> = {
  takeover: { icon: ArrowRightLeft, hue: "hue-run", text: "Taken over" },
  failed: { icon: CircleX, hue: "hue-fail", text: "Failed" },
  held: { icon: Hand, hue: "hue-held", text: "Held" },
  resumed: { icon: RotateCw, hue: "hue-idle", text: "Resumed" },
  paused: { icon: CirclePause, hue: "hue-idle", text: "Paused" },
  branch: { icon: GitBranch, hue: "hue-undo", text: "New branch" },
  completed: { icon: CircleCheck, hue: "hue-done", text: "Completed" },
  cancelled: { icon: Ban, hue: "hue-idle", text: "Cancelled" },
  version: { icon: Layers, hue: "hue-undo", text: "New version" },
};

/** The look of each piece of a bar; one that was left on another branch is hollow. */
export const PIECES: Record<PieceKind, { full: string; hollow: string }> = {
  queued: { full: "bar-queued", hollow: "bar-queued" },
  own: { full: "bg-own", hollow: "bar-hollow" },
  running: { full: "bg-run-bar bar-open", hollow: "bar-hollow" },
  engine: { full: "bg-ink", hollow: "bar-hollow" },
  failed: { full: "bg-fail-bar", hollow: "bar-hollow bar-hollow-fail" },
  lost: { full: "bar-lost-attempt", hollow: "bar-lost-attempt opacity-70" },
  undo: { full: "bg-undo-bar", hollow: "bar-hollow" },
  retry: { full: "bar-dots", hollow: "bar-dots opacity-70" },
  wait: { full: "bar-waiting", hollow: "bar-hollow bar-hollow-wait" },
};
