import type { ReactNode } from "react";
import { Link } from "react-router";
import { duration } from "@/model/durations";
import type { Interval } from "@/model/events";
import { type Attempt, isLeft, type WaitBar } from "@/model/timeline";
import { messageOf, shortErrorName } from "@/model/trace";
import { Moment } from "@/ui/Moment";
import { Panel } from "@/ui/Panel";
import { ShortId } from "@/ui/ShortId";
import { addressOf, useRun } from "../context";

const OUTCOMES: Record<string, string> = {
  queued: "It waits to begin",
  running: "At work",
  completed: "Completed",
  failed: "Failed",
  retrying: "Failed, and tried again",
  lost: "Lost with its worker",
  stopped: "Stopped with the run",
  skipped: "Skipped",
};

const CAUSES: Record<string, string> = {
  retry: "after a failure",
  crash: "after an interruption",
  pause: "on resume",
  reset: "again, by a person",
};

/** The selected attempt in words. */
export function SelectedAttempt({
  attempt,
  followed,
  intervals,
  now,
}: {
  attempt: Attempt;
  followed: Attempt | undefined;
  intervals: readonly Interval[];
  now: number;
}) {
  const { to } = useRun();
  const { node, scheduled, started, ended, own, worker, error, outcome } = attempt;
  const total = Math.max(0, (ended ?? now) - (started ?? scheduled));
  return (
    <Panel
      className="mt-4"
      title={`${node}, attempt ${attempt.attempt}`}
      note={`${isLeft(attempt, intervals) ? `on branch ${attempt.branch}, which was left. ` : ""}${OUTCOMES[outcome]}`}
      end={
        <span className="flex flex-wrap gap-3 text-meta">
          <Link to={to({ tab: "events", node, event: attempt.first })} className="link">
            Events {attempt.first} to {attempt.last}
          </Link>
          <Link to={to({ tab: "logs", node, attempt: attempt.attempt })} className="link">
            Logs
          </Link>
          <Link to={to({ tab: "values", node, attempt: attempt.attempt })} className="link">
            Inputs
          </Link>
        </span>
      }
    >
      <Facts>
        <Fact name="Scheduled">
          <Moment time={scheduled} precise /> {CAUSES[attempt.cause] ?? ""}
        </Fact>
        <Fact name="Queued">
          {started === null ? duration((ended ?? now) - scheduled) : duration(started - scheduled)}
        </Fact>
        <Fact name="Own work">
          {started === null
            ? "–"
            : outcome === "lost"
              ? `${duration(total)}, then nothing was heard`
              : duration(own || total)}
          {own > 0 && ended !== null && total - own > 0.5 ? `, and ${duration(total - own)} until it was recorded` : ""}
        </Fact>
        <Fact name="Worker">{worker ? <ShortId id={worker} /> : "–"}</Fact>
        <Fact name={error ? "Error" : "Followed by"}>
          {error ? (
            `${shortErrorName(error.kind)}: ${messageOf(error)}`
          ) : followed ? (
            <Followed attempt={attempt} followed={followed} />
          ) : (
            "Nothing"
          )}
        </Fact>
      </Facts>
    </Panel>
  );
}

function Followed({ attempt, followed }: { attempt: Attempt; followed: Attempt }) {
  const { to } = useRun();
  const after = followed.scheduled - (attempt.ended ?? attempt.scheduled);
  return (
    <>
      <Link to={to({ node: followed.node, attempt: followed.attempt, event: followed.first })} className="link">
        attempt {followed.attempt}
      </Link>
      {followed.worker && followed.worker !== attempt.worker ? (
        <>
          , by <ShortId id={followed.worker} />
        </>
      ) : null}
      , after {duration(after)}
    </>
  );
}

export function SelectedWait({ wait, now }: { wait: WaitBar; now: number }) {
  const { to } = useRun();
  return (
    <Panel
      className="mt-4"
      title={wait.label || wait.id}
      note={wait.outcome ? `${wait.outcome}${wait.by ? ` by ${wait.by}` : ""}` : "open"}
      end={
        <span className="flex gap-3 text-meta">
          {wait.kind === "child" ? (
            <Link to={addressOf(wait.id, {})} className="link">
              Open the child run
            </Link>
          ) : null}
          <Link to={to({ tab: "events", event: wait.first })} className="link">
            {wait.last > wait.first ? `Events ${wait.first} and ${wait.last}` : `Event ${wait.first}`}
          </Link>
        </span>
      }
    >
      <Facts>
        <Fact name="Since">
          <Moment time={wait.from} precise />
        </Fact>
        <Fact name="Waited">{duration((wait.to ?? now) - wait.from)}</Fact>
        <Fact name="Due">{wait.due === null ? "Never" : <Moment time={wait.due} />}</Fact>
        <Fact name="Kind">{wait.kind}</Fact>
        <Fact name="Id">
          <ShortId id={wait.id} />
        </Fact>
      </Facts>
    </Panel>
  );
}

function Facts({ children }: { children: ReactNode }) {
  return <dl className="grid grid-cols-5 gap-4 px-4 py-3 max-md:grid-cols-2">{children}</dl>;
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-meta text-text-2">{name}</dt>
      <dd className="break-words">{children}</dd>
    </div>
  );
}
