import {
  AlarmClock,
  CircleAlert,
  CirclePlay,
  CornerDownRight,
  Hand,
  type LucideIcon,
  MessageCircleQuestionMark,
  Radio,
  Rows3,
  Unplug,
} from "lucide-react";
import type { ReactNode } from "react";
import type { View } from "@/api/client";
import { count, duration } from "@/model/durations";
import { plainName, shortId } from "@/model/names";
import { Moment, msOf } from "@/ui/Moment";
import { useNow } from "@/ui/now";

type Run = View<"RunView">;
type Wait = View<"WaitView">;

/** What a run waits for, or why it is in its state. */
export function Why({ run, isUnknown, progress }: { run: Run; isUnknown: boolean; progress: View<"ProgressView">[] }) {
  if (run.held) return <Line icon={Hand} hue="hue-held" text={run.reason} />;
  if (run.status === "failed") return <Line icon={CircleAlert} hue="hue-fail" text={run.reason} />;
  if (run.awaits_start) return <Line icon={CirclePlay} hue="hue-idle" text="To be started by a person" />;
  if (run.status === "created" && isUnknown)
    return <Line icon={Unplug} hue="hue-wait" text="No live worker knows this workflow" />;
  if (run.status === "running" && run.holder && !run.holder.live) return <Lost holder={run.holder} />;
  const wait = run.waits.find((each) => each.kind === "interaction") ?? run.waits[0];
  if (wait && (run.status === "waiting" || run.status === "running"))
    return <Waits wait={wait} more={run.waiting - 1} />;
  if (run.status === "running" && progress[0]) return <Progress progress={progress[0]} more={progress.length - 1} />;
  if (run.reason) return <span className="text-text-2">{run.reason}</span>;
  return <span className="text-text-3">–</span>;
}

/** Whether there is something to say of the run. */
export function hasWhy(run: Run, isUnknown: boolean): boolean {
  return Boolean(
    run.awaits_start ||
      run.reason ||
      run.waits.length ||
      run.progress.length ||
      (run.status === "created" && isUnknown),
  );
}

function Line({ icon: Icon, hue, text, more = 0 }: { icon: LucideIcon; hue: string; text: ReactNode; more?: number }) {
  return (
    <span className={`flex min-w-0 items-center gap-2.5 ${hue}`}>
      <Icon size={14} aria-hidden className="flex-none text-hue" />
      <span className="truncate" title={typeof text === "string" ? text : undefined}>
        {text}
      </span>
      {more > 0 ? <span className="flex-none text-meta text-text-3">+{count(more)}</span> : null}
    </span>
  );
}

const WAITS: Record<Wait["kind"], LucideIcon> = {
  interaction: MessageCircleQuestionMark,
  timer: AlarmClock,
  signal: Radio,
  child: CornerDownRight,
  outbox: Rows3,
  trigger: Rows3,
};

function Waits({ wait, more }: { wait: Wait; more: number }) {
  const hue = wait.kind === "interaction" ? "hue-wait" : "hue-idle";
  return <Line icon={WAITS[wait.kind]} hue={hue} more={more} text={textOf(wait)} />;
}

function textOf(wait: Wait): ReactNode {
  const name = plainName(wait.id);
  switch (wait.kind) {
    case "interaction":
      return wait.text || name;
    case "timer":
      return wait.due ? (
        <>
          Timer, due <Moment time={wait.due} />
        </>
      ) : (
        "Timer"
      );
    case "signal":
      return `Signal ${wait.text || name}`;
    case "child":
      return `Child ${shortId(name)}`;
    default:
      return wait.text || name;
  }
}

function Progress({ progress, more }: { progress: View<"ProgressView">; more: number }) {
  const { node, done, total, text } = progress;
  return (
    <span className="flex min-w-0 items-center gap-2.5">
      <code className="flex-none">{plainName(node)}</code>
      {total ? (
        <span aria-hidden className="h-1 w-14 flex-none rounded-full bg-selected">
          <span
            className="block h-full rounded-full bg-run-bar"
            style={{ width: `${Math.max(0, Math.min(100, (100 * done) / total))}%` }}
          />
        </span>
      ) : null}
      <span className="truncate">
        {count(done)}
        {total ? ` of ${count(total)}` : ""}
        {text ? `, ${text}` : ""}
      </span>
      {more > 0 ? <span className="flex-none text-meta text-text-3">+{more}</span> : null}
    </span>
  );
}

function Lost({ holder }: { holder: View<"HolderView"> }) {
  const now = useNow();
  const silent = holder.last_seen ? duration(now - msOf(holder.last_seen), { whole: true }) : "";
  const text = `Worker ${shortId(holder.worker)} has not answered${silent ? ` for ${silent}` : ""}`;
  return <Line icon={Unplug} hue="hue-wait" text={text} />;
}
