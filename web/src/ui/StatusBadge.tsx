import {
  Ban,
  CircleCheck,
  CircleDashed,
  CirclePause,
  CircleX,
  Hand,
  Hourglass,
  LoaderCircle,
  type LucideIcon,
  Undo2,
} from "lucide-react";
import type { View } from "@/api/client";

export type Status = View<"RunStatus"> | "held";

interface Look {
  word: string;
  icon: LucideIcon;
  hue: string;
}

export const STATUSES: Record<Status, Look> = {
  created: { word: "Created", icon: CircleDashed, hue: "hue-idle" },
  running: { word: "Running", icon: LoaderCircle, hue: "hue-run" },
  waiting: { word: "Waiting", icon: Hourglass, hue: "hue-wait" },
  paused: { word: "Paused", icon: CirclePause, hue: "hue-idle" },
  compensating: { word: "Compensating", icon: Undo2, hue: "hue-undo" },
  completed: { word: "Completed", icon: CircleCheck, hue: "hue-done" },
  failed: { word: "Failed", icon: CircleX, hue: "hue-fail" },
  cancelled: { word: "Cancelled", icon: Ban, hue: "hue-idle" },
  held: { word: "Held", icon: Hand, hue: "hue-held" },
};

/** The status as people read it: held is a flag of failed. */
export function statusOf(run: { status: View<"RunStatus">; held: boolean }): Status {
  return run.held ? "held" : run.status;
}

/** Whether a person has to act on a run in this state. */
export function needsPerson(run: { status: View<"RunStatus">; held: boolean; waits: { kind: string }[] }): boolean {
  const isAsking = run.status === "waiting" && run.waits.some((wait) => wait.kind === "interaction");
  return run.status === "failed" || run.held || isAsking;
}

/** A status: icon and word in its colour. It is filled only if a person has to act. */
export function StatusBadge({ status, filled, big }: { status: Status; filled?: boolean; big?: boolean }) {
  const { word, icon: Icon, hue } = STATUSES[status];
  const isCalm = !big && (hue === "hue-done" || hue === "hue-idle");
  const fill = filled ? "-ml-1.5 rounded-control bg-hue-tint py-px pr-2 pl-1.5" : "";
  const type = big ? "text-head font-semibold text-hue" : isCalm ? "text-text-2" : "font-medium text-hue";
  return (
    <span className={`inline-flex items-center gap-1.5 align-middle whitespace-nowrap ${hue} ${fill} ${type}`}>
      <Icon
        size={big ? 20 : 16}
        aria-hidden
        className={`flex-none ${isCalm && hue === "hue-done" ? "text-done" : ""}`}
      />
      {word}
    </span>
  );
}
