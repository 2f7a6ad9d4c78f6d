import { ArrowRight, CornerUpLeft, History } from "lucide-react";
import { type ReactNode, useMemo } from "react";
import { Link } from "react-router";
import { useMay, useWorkers } from "@/api/queries";
import { count, counted, duration, preciseClock } from "@/model/durations";
import { cutName, plainName, shortId } from "@/model/names";
import type { RunLog } from "@/model/run-log";
import { type OpenWait, type Snapshot, snapshotAt, snapshotOf, type WorkingNode } from "@/model/snapshot";
import { framesOf, messageOf, shortErrorName } from "@/model/trace";
import { oneLine } from "@/model/values";
import { Button } from "@/ui/Button";
import { Since } from "@/ui/Duration";
import { Moment } from "@/ui/Moment";
import { useNow } from "@/ui/now";
import { ShortId } from "@/ui/ShortId";
import { STATUSES, StatusBadge, statusOf } from "@/ui/StatusBadge";
import { useSettings } from "@/ui/settings";
import { useActions } from "../actions/store";
import { Advice } from "./Advice";
import { addressOf, useRun } from "./context";

/** The state in one sentence, its facts, and the one safe action with its dry run. It is the same above every tab. */
export function Verdict() {
  const { detail, place, log, state, version } = useRun();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the newest state changes in place, with its version
  const shown = useMemo(
    () =>
      place.at === null && (place.branch === null || place.branch === detail.branch)
        ? snapshotOf(detail)
        : snapshotAt(state, log),
    [detail, place.at, place.branch, state, log, version],
  );
  const status = statusOf(shown);
  const { hue } = STATUSES[status];
  return (
    <section
      aria-label="State of the run"
      className={`grid overflow-hidden rounded-panel border border-line border-l-4 border-l-hue-bar bg-surface lg:grid-cols-[minmax(0,13fr)_minmax(0,7fr)] ${hue}`}
    >
      <div className="flex min-w-0 flex-col px-4 py-3">
        <StatusBadge status={status} big />
        <p className="mt-1 line-clamp-3 text-head break-words">
          <Sentence shown={shown} />
        </p>
        <p className="text-text-2">
          <Where shown={shown} />
        </p>
        <div className="mt-auto pt-3">
          <Facts shown={shown} />
        </div>
      </div>
      <div className="min-w-0 border-line px-4 py-3 max-lg:border-t lg:border-l">
        {place.at === null ? <Advice shown={shown} /> : <Past />}
      </div>
    </section>
  );
}

const names = (all: string[]): string => {
  const shown = all.slice(0, 3).map((name) => cutName(name));
  if (all.length > 3) shown.push(`${count(all.length - 3)} more`);
  return shown.length > 1 ? `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}` : (shown[0] ?? "");
};

const ordinal = (number: number): string => {
  const ends = ["th", "st", "nd", "rd"];
  const tens = number % 100;
  return `${number}${(tens > 10 && tens < 14 ? "" : ends[number % 10]) || "th"}`;
};

function Sentence({ shown }: { shown: Snapshot }): ReactNode {
  const { detail, log } = useRun();
  const known = useKnown();
  const { status, error, failed, working } = shown;
  if (shown.held)
    return failed && error?.kind === "outlast.node_interrupted"
      ? `${cutName(failed.node)} was interrupted and must not be repeated without a decision`
      : shown.reason || "A person must decide how this run continues";
  switch (status) {
    case "created":
      if (detail.awaits_start) return "It was created to be started later";
      return known === 0 ? `No live worker knows ${detail.workflow}` : "A worker will start it";
    case "waiting":
      return waitsFor(shown);
    case "paused":
      return shown.reason || "It was paused";
    case "compensating":
      return working.length ? `${names(working.map((each) => each.node))} cleans up` : "What was done is being undone";
    case "completed":
      if (shown.successor)
        return (
          <>
            It continues as another run,{" "}
            <Link to={addressOf(shown.successor, {})} className="link">
              {shortId(shown.successor)}
            </Link>
          </>
        );
      return typeof shown.result === "string" ? (
        shown.result.slice(0, 300) || "Completed"
      ) : shown.result === null ? (
        "Completed without a result"
      ) : (
        <code className="text-read">{oneLine(shown.result, 160).text}</code>
      );
    case "cancelled":
      return shown.reason ? `Cancelled: ${shown.reason}` : "It was cancelled";
    case "failed": {
      if (!error) return "It failed";
      const times = failed && failed.attempt - failed.crashes > 1 ? ` ${failed.attempt - failed.crashes} times` : "";
      return failed ? `${cutName(failed.node)} failed${times}: ${messageOf(error)}` : messageOf(error);
    }
    default:
      return atWork(shown, log);
  }
}

function atWork(shown: Snapshot, log: RunLog): string {
  const { working } = shown;
  const [first] = working;
  if (!first) {
    const waits = shown.waits.filter((wait) => wait.kind !== "outbox" && wait.kind !== "trigger");
    return waits.length ? waitsFor(shown) : "The code of the workflow is at work";
  }
  if (working.length > 1)
    return `${counted(working.length, "node")} are at work: ${names(working.map((each) => each.node))}`;
  if (first.attempt === 1) return `${cutName(first.node)} is at work`;
  const before = attemptsBefore(first, log);
  return `${cutName(first.node)} is at its ${ordinal(first.attempt)} attempt${before ? `: ${before}` : ""}`;
}

/** How the attempts before this one ended, as far as the log is loaded. */
function attemptsBefore({ node, attempt }: WorkingNode, log: RunLog): string {
  const ends = { lost: [] as number[], failed: [] as number[] };
  for (const each of log.timeline.attempts) {
    if (each.node !== node || each.attempt >= attempt) continue;
    if (each.outcome === "lost") ends.lost.push(each.attempt);
    if (each.outcome === "failed" || each.outcome === "retrying") ends.failed.push(each.attempt);
  }
  const { lost, failed } = ends;
  const parts = [
    lost.length
      ? `${which(lost)} ${lost.length === 1 ? "was lost with its worker" : "were lost with their workers"}`
      : "",
    failed.length ? `${which(failed)} failed` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

const which = (numbers: number[]): string =>
  numbers.length === 1
    ? `attempt ${numbers[0]}`
    : numbers.length > 3
      ? `${numbers.length} attempts`
      : `attempts ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`;

function waitsFor({ waits, waiting }: Snapshot): string {
  const asked = waits.find((wait) => wait.kind === "interaction");
  if (asked) return asked.text || `It asks: ${asked.id}`;
  const children = waits.filter((wait) => wait.kind === "child");
  if (children.length)
    return `${counted(children.length, "child run")} ${children.length === 1 ? "is" : "are"} at work: ${names(children.map((wait) => wait.node || wait.text || wait.id))}`;
  const [wait] = waits;
  if (!wait) return "It waits";
  const more = waiting > 1 ? `, and ${waiting - 1} more` : "";
  if (wait.kind === "signal") return `It waits for the signal ${wait.text || wait.id}${more}`;
  if (wait.id.startsWith("retry:"))
    return `${cutName(wait.node)} failed and is tried again${wait.text ? `: ${wait.text}` : ""}`;
  if (wait.kind === "timer") return `It sleeps${wait.id === "sleep" ? "" : ` (${plainName(wait.id)})`}${more}`;
  return `It waits for ${wait.text || wait.id}${more}`;
}

/** The live workers that know the workflow; null until it is known. */
function useKnown(): number | null {
  const { detail } = useRun();
  const workers = useWorkers().data?.workers;
  if (!workers) return null;
  return workers.filter((worker) => worker.live && worker.workflows.includes(detail.workflow)).length;
}

function Where({ shown }: { shown: Snapshot }): ReactNode {
  const { place, detail, to } = useRun();
  const now = useNow();
  const workers = useWorkers().data?.workers.filter((worker) => worker.live).length;
  const { status, error, failed } = shown;
  const ago = (time: number) => (place.at === null ? <>, {duration(now - time, { whole: true })} ago</> : null);
  if (shown.held)
    return (
      <>
        {failed ? (
          <>
            attempt {failed.attempt} began at <Moment time={failed.began} />.{" "}
          </>
        ) : null}
        Held since <Moment time={shown.updated} />
        {ago(shown.updated)}
      </>
    );
  if (status === "failed" && error) {
    const frame = framesOf(error.trace ?? "").at(-1);
    return (
      <>
        <code>{shortErrorName(error.kind)}</code>
        {frame ? (
          <>
            {" "}
            in{" "}
            <Link to={to({ tab: "story" })} className="link">
              <code>
                {frame.file}:{frame.line}, {frame.name}
              </code>
            </Link>
          </>
        ) : null}
        {failed ? <>, attempt {failed.attempt}</> : null}, at <Moment time={shown.updated} />
        {ago(shown.updated)}
      </>
    );
  }
  if (status === "created")
    return (
      <>
        Created at <Moment time={shown.created} />, waiting to start for <Since from={shown.created} />
        {detail.queue ? `, in the queue ${detail.queue}` : ""}.
        {workers === undefined ? "" : ` ${counted(workers, "worker")} ${workers === 1 ? "is" : "are"} alive.`}
      </>
    );
  const wait = leading(shown);
  if ((status === "waiting" || status === "running") && wait && !shown.working.length)
    return <WaitSince wait={wait} now={now} />;
  if (status === "running" || status === "compensating") return <Progress shown={shown} />;
  if (status === "completed")
    return (
      <>
        Completed at <Moment time={shown.updated} />
        {ago(shown.updated)}
        {shown.branch ? `, on branch ${shown.branch}. What was done on earlier branches is kept` : ""}
      </>
    );
  return (
    <>
      Since <Moment time={shown.updated} />
      {ago(shown.updated)}
      {detail.branch !== shown.branch ? `, on branch ${shown.branch}` : ""}
    </>
  );
}

const leading = ({ waits }: Snapshot): OpenWait | undefined =>
  waits.find((wait) => wait.kind === "interaction") ?? waits[0];

function WaitSince({ wait, now }: { wait: OpenWait; now: number }) {
  const what = {
    interaction: "an answer",
    timer: "its time",
    signal: "the signal",
    child: "them",
    outbox: "delivery",
    trigger: "input",
  };
  return (
    <>
      Waits for {what[wait.kind]}
      {wait.since ? (
        <>
          {" "}
          for <Since from={wait.since} />, since <Moment time={wait.since} />
        </>
      ) : null}
      {wait.due ? (
        <>
          . {wait.kind === "interaction" ? "It expires" : "Due"} at <Moment time={wait.due} />
          {wait.due > now ? `, in ${duration(wait.due - now, { whole: true })}` : ""}
        </>
      ) : null}
    </>
  );
}

/** How far the nodes at work are, and for how long. */
function Progress({ shown }: { shown: Snapshot }): ReactNode {
  const { detail, place } = useRun();
  const seconds = useNow();
  const now = place.at === null ? seconds : shown.updated;
  const first = shown.working[0];
  const progress = place.at === null ? detail.progress.find((each) => each.node === first?.node) : undefined;
  const holder = place.at === null ? detail.holder : null;
  return (
    <>
      {first ? (
        <>
          Attempt {first.attempt} has been at work for {duration(now - first.began, { whole: true })}
        </>
      ) : (
        <>
          At work since <Moment time={shown.updated} />
        </>
      )}
      {progress ? (
        <>
          :{" "}
          <b className="text-text">
            {count(progress.done)}
            {progress.total === null ? "" : ` of ${count(progress.total)}`}
          </b>{" "}
          {progress.text}
        </>
      ) : null}
      {holder && !holder.live ? (
        <>
          . Its worker <ShortId id={holder.worker} /> does not answer: it is taken over at{" "}
          <Moment time={holder.expires} />
        </>
      ) : null}
    </>
  );
}

function Facts({ shown }: { shown: Snapshot }) {
  const { status, held, recoverable, error } = shown;
  const isOver = (status === "completed" || status === "cancelled" || status === "failed") && !held;
  const nodes =
    shown.allNodes > shown.doneNodes
      ? `${count(shown.doneNodes)} of ${counted(shown.allNodes, "node")}`
      : counted(shown.doneNodes, "node");
  const children = shown.children ? `, ${counted(shown.children, "child run")}` : "";
  return (
    <dl className="grid grid-cols-4 gap-x-4 gap-y-2 border-t border-line pt-2.5 max-md:grid-cols-2">
      <Fact name="Waits for">
        <WaitFact shown={shown} isOver={isOver} />
      </Fact>
      <Fact name="Held by">
        <HolderFact isOver={isOver} />
      </Fact>
      <Fact name={status === "failed" || status === "paused" ? "Done and kept" : "Done"}>
        {nodes}
        {children}
      </Fact>
      {status === "failed" ? (
        <Fact name="Recoverable">
          {!recoverable
            ? "No, it failed for good"
            : held
              ? "Yes, after a decision"
              : error?.category === "transient"
                ? "Yes, the error is transient"
                : "Yes"}
        </Fact>
      ) : (
        <Fact name="Lost on the way">
          <Losses />
        </Fact>
      )}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-meta text-text-2">{name}</dt>
      <dd className="break-words">{children}</dd>
    </div>
  );
}

function WaitFact({ shown, isOver }: { shown: Snapshot; isOver: boolean }): ReactNode {
  const awaitsStart = useRun().detail.awaits_start;
  if (shown.held || shown.status === "paused" || (shown.status === "failed" && shown.recoverable))
    return "A person’s decision";
  if (isOver) return "Nothing";
  if (shown.status === "created") return awaitsStart ? "A person’s decision" : "A worker";
  const wait = leading(shown);
  if (!wait) return "Nothing";
  const children = shown.waits.filter((each) => each.kind === "child").length;
  if (wait.kind === "interaction") return "A person’s answer";
  if (wait.kind === "timer") return wait.due ? <Moment time={wait.due} /> : "A time";
  if (wait.kind === "signal") return `The signal ${wait.text || wait.id}`;
  return wait.kind === "child" ? counted(children, "child run") : wait.text || wait.id;
}

function HolderFact({ isOver }: { isOver: boolean }): ReactNode {
  const { detail, place, log } = useRun();
  const { holdings } = log.timelineAt(place.at);
  const last = holdings.findLast((each) => each.worker)?.worker;
  const then = place.at === null ? undefined : holdings.at(-1)?.worker;
  const holder = place.at === null ? detail.holder : null;
  if (then)
    return (
      <>
        Worker <ShortId id={then} />
      </>
    );
  if (holder && !isOver)
    return (
      <>
        Worker <ShortId id={holder.worker} />, {holder.live ? "alive" : "gone"}
      </>
    );
  return (
    <>
      No worker
      {last ? (
        <>
          . Last: <ShortId id={last} />
        </>
      ) : null}
    </>
  );
}

/** Workers and failed attempts that the run lost, as the log tells them. */
function Losses(): ReactNode {
  const { log, place, isComplete } = useRun();
  const { marks, attempts } = log.timelineAt(place.at);
  const workers = marks.filter((mark) => mark.kind === "takeover").length;
  const failures = attempts.filter((each) => each.outcome === "failed" || each.outcome === "retrying").length;
  const parts = [workers ? counted(workers, "worker") : "", failures ? counted(failures, "failure") : ""].filter(
    Boolean,
  );
  return parts.join(", ") || (isComplete ? "Nothing" : "–");
}

/** In the past, nothing can be done except to return. */
function Past() {
  const { run, place, log, go } = useRun();
  const mayJump = useMay("runs:jump");
  const zone = useSettings((settings) => settings.zone);
  const time = log.event(place.at ?? 0)?.time;
  return (
    <>
      <p className="flex gap-2">
        <History size={16} aria-hidden className="mt-0.5 flex-none" />
        <span>
          <b>
            You see the past: {time ? `${preciseClock(time / 1000, zone)}, ` : ""}event {place.at}.
          </b>{" "}
          Nothing can be done from here except to go back to this place.
        </span>
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        <Button look="primary" onClick={() => go({ at: null })}>
          <ArrowRight size={16} aria-hidden /> Show now
        </Button>
        {mayJump && place.at ? (
          <Button onClick={() => useActions.getState().ask({ kind: "jump", run, to: place.at ?? 0 })}>
            <CornerUpLeft size={16} aria-hidden /> Go back to here…
          </Button>
        ) : null}
      </div>
    </>
  );
}
