import { useQuery } from "@tanstack/react-query";
import {
  ArrowRightLeft,
  Ban,
  CircleCheck,
  CirclePause,
  CircleX,
  GitBranch,
  Hand,
  LoaderCircle,
  type LucideIcon,
  RotateCw,
} from "lucide-react";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { answer, api } from "@/api/client";
import { keys } from "@/api/queries";
import { idleGaps } from "@/model/axis";
import { count, counted, duration, preciseClock } from "@/model/durations";
import { plainName } from "@/model/names";
import type { RunLog } from "@/model/run-log";
import { snapshotOf } from "@/model/snapshot";
import { type Left, type Line, linesOf, type Sentence, sentencesOf } from "@/model/story";
import type { Span } from "@/model/timeline";
import { Button } from "@/ui/Button";
import { Since } from "@/ui/Duration";
import { EmptyState } from "@/ui/EmptyState";
import { LoadError } from "@/ui/LoadError";
import { Panel } from "@/ui/Panel";
import { ShortId } from "@/ui/ShortId";
import { Skeleton } from "@/ui/Skeleton";
import { useSettings } from "@/ui/settings";
import { Segments } from "@/ui/Tabs";
import { type RunDetail, useRun } from "../context";
import { EventLink } from "./FirstError";

const SHOWN = 300;

/** What happened, in sentences: each with its time since the start and the number of its event. */
export function Spine() {
  const { run, detail, place, log, version, branch } = useRun();
  const [isFull, setFull] = useState(false);
  const [limit, setLimit] = useState(SHOWN);
  const { data, error, refetch } = useExplained(run, isFull, place.branch);
  const sentences = useMemo(() => {
    const all = sentencesOf(data?.timeline.entries ?? []);
    return place.at === null ? all : all.filter((each) => each.seq <= (place.at ?? 0));
  }, [data, place.at]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the log changes in place, with its version
  const lines = useMemo(() => {
    const { spans, created, last } = log.timeline;
    const end = place.at === null ? last : (log.event(place.at)?.time ?? 0) / 1000;
    const gaps = idleGaps(spans, created, end).filter((gap) => gap.kind !== "retry" && gap.to - gap.from >= 1000);
    const omitted = { count: place.at === null ? (data?.timeline.omitted ?? 0) : 0, at: data?.timeline.gap ?? 0 };
    return linesOf(sentences, gaps, leftBy(log, branch), omitted);
  }, [sentences, data, log, version, place.at, branch]);
  const shown = lines.slice(0, limit);
  const isNow = place.at === null && branch === detail.branch && lines.length <= limit && workingIn(detail).length > 0;
  return (
    <Panel
      title="Story"
      note={data ? `${counted(place.at ?? detail.at, "event")} in ${counted(sentences.length, "sentence")}` : undefined}
      end={
        <Segments
          label="How much is told"
          value={isFull ? "full" : "short"}
          onChange={(value) => setFull(value === "full")}
          choices={[
            { value: "short", text: "Short" },
            { value: "full", text: "Every step" },
          ]}
        />
      }
    >
      {!data && error ? <LoadError what="The story" error={error} retry={() => void refetch()} /> : null}
      {!data && !error ? <Skeleton lines={8} label="Loading the story" /> : null}
      {data && !lines.length ? <EmptyState icon={CircleCheck} title="Nothing has happened yet." /> : null}
      {lines.length ? (
        <ol className="py-3">
          {shown.map((line, at) => (
            <SpineLine
              key={line.is === "sentence" ? line.sentence.seq : `${line.is} ${at}`}
              line={line}
              isLast={at === shown.length - 1 && !isNow}
            />
          ))}
          {isNow ? <NowLine /> : null}
        </ol>
      ) : null}
      {lines.length > limit ? (
        <p className="flex items-center gap-3 border-t border-line px-4 py-2 text-text-2">
          {count(limit)} of {count(lines.length)} lines are shown.
          <Button small onClick={() => setLimit(limit + 1000)}>
            Show {count(Math.min(1000, lines.length - limit))} more
          </Button>
        </p>
      ) : null}
    </Panel>
  );
}

/** The story from the server. The query is cached for a while, so its closure must not refer to the log. */
function useExplained(run: string, isFull: boolean, branch: number | null) {
  return useQuery({
    queryKey: [...keys.run(run), "explain", isFull, branch],
    queryFn: ({ signal }) => {
      const query = { full: isFull, ...(branch === null ? {} : { branch }) };
      return answer(api.GET("/api/v1/runs/{run}/explain", { params: { path: { run }, query }, signal }));
    },
    placeholderData: (before) => before,
  });
}

/** The times on branches that this one left: between the events that it sees. */
function leftBy(log: RunLog, branch: number): Left[] {
  const intervals = log.lineage(branch);
  return intervals.slice(1).flatMap(([first], at) => {
    const last = intervals[at]?.[1] ?? 0;
    const [from, to] = [(log.event(last)?.time ?? 0) / 1000, (log.event(first)?.time ?? 0) / 1000];
    const branches = new Set(log.events.slice(last, first - 1).map((event) => event.branch));
    return branches.size ? [{ from, to, branches: [...branches] }] : [];
  });
}

const GRID = "grid grid-cols-[76px_16px_minmax(0,1fr)_auto] gap-x-3 px-4 max-md:grid-cols-[16px_minmax(0,1fr)_auto]";

function SpineLine({ line, isLast }: { line: Line; isLast: boolean }) {
  if (line.is === "sentence") return <SentenceLine sentence={line.sentence} isLast={isLast} />;
  return (
    <li className={GRID}>
      <span className="max-md:hidden" />
      <Rail dashed isLast={isLast} />
      <span className="py-1.5 text-meta text-text-2">
        <Between line={line} />
      </span>
    </li>
  );
}

function Rail({ dashed, isLast, children }: { dashed?: boolean; isLast: boolean; children?: React.ReactNode }) {
  return (
    <span className="relative flex justify-center" aria-hidden>
      {isLast ? null : (
        <span
          className={`absolute top-3 -bottom-3 border-l ${dashed ? "border-dashed border-line-strong" : "border-line"}`}
        />
      )}
      <span className="relative mt-1.5 h-4 bg-surface">{children}</span>
    </span>
  );
}

const workingIn = (detail: RunDetail) => snapshotOf(detail).working.toSorted((one, other) => one.began - other.began);

/** What is at work while one reads. */
function NowLine() {
  const { detail, to } = useRun();
  const working = workingIn(detail);
  const [first] = working;
  if (!first) return null;
  return (
    <li className={GRID}>
      <span className="py-1 text-right text-meta leading-5 text-text-2 max-md:hidden">now</span>
      <Rail isLast>
        <LoaderCircle size={14} className="text-run" />
      </Rail>
      <span className="min-w-0 py-1 text-read leading-5 break-words max-md:text-body">
        <Link
          to={to({ tab: "timeline", node: first.node, attempt: first.attempt })}
          className="font-semibold hover:underline"
        >
          {plainName(first.node)}
        </Link>
        {working.length > 1 ? ` and ${counted(working.length - 1, "other node")} are` : " is"} at work, attempt{" "}
        {first.attempt}, for <Since from={first.began} />
      </span>
      <span />
    </li>
  );
}

const DID: Record<Span["kind"], string> = {
  queued: "It waited for a worker",
  work: "At work",
  person: "It waited for an answer",
  timer: "It slept",
  retry: "It waited for the next attempt",
  signal: "It waited for a signal",
  child: "It waited for its child runs",
  nobody: "Nobody worked on this run",
  paused: "It was paused",
  held: "It was held",
  failed: "It had failed, until it was resumed",
  cancelled: "It was cancelled",
  completed: "It was completed, until somebody went back",
};

function Between({ line }: { line: Exclude<Line, { is: "sentence" }> }) {
  const { to } = useRun();
  if (line.is === "omitted") return `${count(line.count)} sentences are left out here.`;
  if (line.is === "gap") return `${DID[line.span.kind]} for ${duration(line.span.to - line.span.from)}`;
  return (
    <>
      {duration(line.to - line.from)} on{" "}
      {line.branches.map((branch, at) => (
        <span key={branch}>
          {at ? ", " : ""}
          <Link to={to({ branch })} className="link">
            branch {branch}
          </Link>
        </span>
      ))}
      , which was left
    </>
  );
}

const MARKS: Record<string, [LucideIcon, string]> = {
  RunTakenOver: [ArrowRightLeft, "text-run"],
  RunFailed: [CircleX, "text-fail"],
  RunCompleted: [CircleCheck, "text-done"],
  RunContinued: [CircleCheck, "text-done"],
  RunCancelled: [Ban, "text-idle"],
  RunPaused: [CirclePause, "text-idle"],
  RunStarted: [RotateCw, "text-run"],
  BranchOpened: [GitBranch, "text-undo"],
};

function markOf(sentence: Sentence): [LucideIcon, string] | null {
  const { kind, level, notes } = sentence;
  if (kind === "RunFailed" && sentence.parts[0]?.text.startsWith("Run held")) return [Hand, "text-held"];
  if (kind === "RunStarted" && level === "info") return null;
  if (MARKS[kind]) return MARKS[kind];
  if (level === "error") return [CircleX, "text-fail"];
  if (level === "warning" || notes.length) return [RotateCw, "text-wait"];
  return null;
}

function SentenceLine({ sentence, isLast }: { sentence: Sentence; isLast: boolean }) {
  const { to } = useRun();
  const zone = useSettings((settings) => settings.zone);
  const mark = markOf(sentence);
  const [Icon, colour] = mark ?? [null, ""];
  const hue = sentence.level === "error" ? "text-fail" : "";
  return (
    <li className={GRID}>
      <time
        dateTime={new Date(sentence.time).toISOString()}
        title={preciseClock(sentence.time, zone)}
        className="py-1 text-right text-meta leading-5 text-text-2 max-md:order-last max-md:col-span-2 max-md:col-start-2 max-md:-mt-1 max-md:text-left"
      >
        {duration(sentence.elapsed)}
      </time>
      <Rail isLast={isLast}>
        {Icon ? (
          <Icon size={14} className={colour} />
        ) : (
          <span className="mx-[3px] mt-1 block size-2 rounded-full bg-idle-bar" />
        )}
      </Rail>
      <div className="min-w-0 py-1 text-read leading-5 break-words max-md:text-body">
        {sentence.parts.map((part, at) => {
          const key = `${at} ${part.kind}`;
          if (part.kind === "name")
            return (
              <Link
                key={key}
                to={to({ tab: "timeline", node: sentence.node, attempt: sentence.attempt })}
                className={`font-semibold hover:underline ${hue}`}
              >
                {part.text}
              </Link>
            );
          if (part.kind === "id") return <ShortId key={key} id={part.text} />;
          return (
            <span
              key={key}
              className={
                sentence.kind.startsWith("Run") && sentence.level === "error" && at === 0
                  ? "font-semibold text-fail"
                  : ""
              }
            >
              {part.text}
            </span>
          );
        })}
        {sentence.value ? (
          <div className="mt-0.5">
            <code className="inline-block max-w-full truncate rounded-control bg-code px-1.5 py-px align-top text-text-2">
              {sentence.value}
            </code>
          </div>
        ) : null}
        {sentence.notes.map((note) => (
          <div key={note.seq} className="text-meta text-text-2">
            {note.text} <EventLink seq={note.seq}>event {note.seq}</EventLink>
          </div>
        ))}
      </div>
      <span className="py-1 text-right text-meta leading-5 text-text-2">
        <EventLink seq={sentence.last} />
      </span>
    </li>
  );
}
