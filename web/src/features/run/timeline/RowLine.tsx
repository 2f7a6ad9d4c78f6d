import {
  AlarmClock,
  Ban,
  ChevronDown,
  ChevronRight,
  CircleCheck,
  CircleDashed,
  CircleX,
  CornerDownRight,
  Hourglass,
  Layers,
  LoaderCircle,
  type LucideIcon,
  MessageCircleQuestionMark,
  Radio,
  RotateCw,
  Undo2,
} from "lucide-react";
import { memo } from "react";
import { Link } from "react-router";
import type { Axis } from "@/model/axis";
import { density, type Piece, piecesOf, waitPiece } from "@/model/bars";
import { counted, duration } from "@/model/durations";
import type { Interval } from "@/model/events";
import { type AttemptFilter, busy, filtered, mapFacts, type Row, took } from "@/model/rows";
import { type Attempt, isLeft } from "@/model/timeline";
import { addressOf } from "../context";
import { PIECES } from "./looks";

export interface RowLineProps {
  row: Row;
  id: string;
  axis: Axis;
  /** Now for what is still at work; 0 for rows in which nothing is, so that they are not drawn again. */
  now: number;
  intervals: readonly Interval[];
  filter: AttemptFilter;
  /** The first event of the attempt or wait that is selected in this row, or 0. */
  selected: number;
  isCurrent: boolean;
  isOpen: boolean;
  top: number;
  height: number;
  isNarrow: boolean;
  nameWidth: number;
  toggle: (row: Row) => void;
  select: (row: Row, bar: { node: string; attempt?: number; first: number } | null) => void;
}

/** One row: its name, its bars, and how long it took. */
export const RowLine = memo(function RowLine(props: RowLineProps) {
  const { row, id, axis, now, intervals, isCurrent, isOpen, top, height, isNarrow, nameWidth, toggle, select } = props;
  const last = row.attempts.at(-1) ?? row.waits.at(-1) ?? null;
  const time = took(row, intervals, now);
  const bold = row.kind === "node" || row.kind === "wait" ? "" : "font-semibold";
  return (
    <div
      role="treeitem"
      tabIndex={-1}
      id={id}
      aria-level={row.depth + 1}
      aria-expanded={row.rows.length || row.kind === "child" ? isOpen : undefined}
      aria-selected={isCurrent}
      className={`absolute inset-x-0 border-b border-line ${isCurrent ? "bg-selected/70" : "hover:bg-hover/60"}`}
      style={{ top, height }}
    >
      <div
        className={`absolute left-0 flex h-8 items-center gap-1.5 pr-3 ${isNarrow ? "right-0" : ""}`}
        style={{ paddingLeft: 8 + Math.min(row.depth, 6) * 18, ...(isNarrow ? {} : { width: nameWidth, height }) }}
      >
        {row.rows.length || row.kind === "child" ? (
          <button
            type="button"
            tabIndex={-1}
            aria-label={`${isOpen ? "Close" : "Open"} ${row.label}`}
            onClick={() => toggle(row)}
            className="-m-1 flex-none rounded-control p-1 hover:bg-hover"
          >
            {isOpen ? <ChevronDown size={16} aria-hidden /> : <ChevronRight size={16} aria-hidden />}
          </button>
        ) : (
          <span className="w-4 flex-none" />
        )}
        <RowIcon row={row} intervals={intervals} />
        {row.kind === "child" && row.child ? (
          <Link
            to={addressOf(row.child.id, { tab: "timeline" })}
            tabIndex={-1}
            className={`truncate hover:underline ${bold}`}
            title={`Open the child run ${row.child.id}`}
          >
            {row.label}
          </Link>
        ) : (
          <button
            type="button"
            tabIndex={-1}
            onClick={() => select(row, last)}
            className={`truncate text-left ${bold}`}
            title={row.id}
          >
            {row.label}
          </button>
        )}
        <span className="flex-none truncate text-text-2">{row.kind === "child" ? "child" : row.detail}</span>
        <span className="ml-auto flex-none pl-2 text-meta text-text-2">
          <Note row={row} />
          {isNarrow && time ? (
            <span className={`pl-3 ${time.isRunning ? "text-text-3" : ""}`}>{duration(time.ms)}</span>
          ) : null}
        </span>
      </div>
      <div
        className="absolute flex items-center"
        style={
          isNarrow
            ? { left: 12, width: axis.width, top: 30, height: height - 32 }
            : { left: nameWidth, width: axis.width, top: 0, height }
        }
      >
        <Bars {...props} />
      </div>
      {isNarrow ? null : (
        <div
          className={`absolute right-4 flex h-full items-center text-meta ${time?.isRunning ? "text-text-3" : "text-text-2"}`}
        >
          {time ? duration(time.ms) : ""}
        </div>
      )}
    </div>
  );
});

function Bars({ row, axis, now, intervals, filter, selected, select }: RowLineProps) {
  if (row.kind === "group") return <Extent spans={busy(row, intervals, now)} axis={axis} />;
  if (row.kind === "map") return <Density row={row} axis={axis} now={now} />;
  const attempts = filtered(row, filter);
  return (
    <>
      {attempts.map((attempt) => (
        <AttemptBar
          key={attempt.first}
          attempt={attempt}
          axis={axis}
          now={now}
          isLeft={isLeft(attempt, intervals)}
          isSelected={attempt.first === selected}
          isOnly={row.attempts.length === 1}
          press={() => select(row, attempt)}
        />
      ))}
      {row.waits.map((wait) => {
        const piece = waitPiece(wait, axis, now);
        if (!piece) return null;
        const left = isLeft(wait, intervals);
        return (
          <button
            key={wait.first}
            type="button"
            tabIndex={-1}
            aria-label={`${wait.kind === "child" ? "Child run" : "Wait"} ${row.label}, ${wait.outcome || "open"}, ${duration((wait.to ?? now) - wait.from)}`}
            onClick={() => select(row, { node: row.id, first: wait.first })}
            className={`absolute h-3.5 rounded-[3px] ${wait.kind === "child" ? (left ? "bar-hollow" : wait.to === null ? "bg-run-bar bar-open" : "bg-own") : left ? PIECES.wait.hollow : PIECES.wait.full} ${wait.first === selected ? "ring-2 ring-ink" : ""}`}
            style={{ left: piece.x, width: piece.width }}
          />
        );
      })}
    </>
  );
}

function AttemptBar({
  attempt,
  axis,
  now,
  isLeft,
  isSelected,
  isOnly,
  press,
}: {
  attempt: Attempt;
  axis: Axis;
  now: number;
  isLeft: boolean;
  isSelected: boolean;
  isOnly: boolean;
  press: () => void;
}) {
  const pieces = piecesOf(attempt, axis, now);
  const [first] = pieces;
  const last = pieces.at(-1);
  if (!first || !last) return null;
  const [x, width] = [first.x, last.x + last.width - first.x];
  return (
    <button
      type="button"
      tabIndex={-1}
      aria-label={`${attempt.node}, attempt ${attempt.attempt}, ${attempt.outcome}${isLeft ? ", left on another branch" : ""}`}
      onClick={press}
      className={`absolute flex h-3.5 rounded-[3px] ${isSelected ? "z-10 ring-2 ring-ink" : ""}`}
      style={{ left: x, width: Math.max(width, 4) }}
    >
      {pieces.map((piece) => (
        <PiecePart key={piece.kind} piece={piece} isLeft={isLeft} />
      ))}
      {!isOnly && width > 14 ? (
        <span
          className={`pointer-events-none absolute inset-y-0 left-1 text-meta leading-3.5 font-semibold ${isLeft || pieces.every((piece) => piece.kind === "queued" || piece.kind === "lost") ? "text-text" : "text-surface"}`}
        >
          {attempt.attempt}
        </span>
      ) : null}
    </button>
  );
}

function PiecePart({ piece, isLeft }: { piece: Piece; isLeft: boolean }) {
  const look = PIECES[piece.kind];
  return (
    <span
      className={`h-full flex-none rounded-[3px] ${isLeft ? look.hollow : look.full}`}
      style={{ width: piece.width }}
    />
  );
}

/** Where something of a group was at work. */
function Extent({ spans, axis }: { spans: [number, number][]; axis: Axis }) {
  return spans.slice(0, 200).map(([from, to]) => {
    if (to < axis.from || from > axis.to) return null;
    const x = axis.x(from);
    return <span key={from} className="absolute h-1 bg-ink" style={{ left: x, width: Math.max(2, axis.x(to) - x) }} />;
  });
}

/** A map: how many of its items were at work, and what came of them. */
function Density({ row, axis, now }: { row: Row; axis: Axis; now: number }) {
  const { x, counts } = density(row.attempts, axis, now);
  const most = counts.reduce((found, each) => Math.max(found, each), 1);
  if (!counts.length) return null;
  const facts = mapFacts(row);
  const width = counts.length * 3;
  const text = [
    facts.failed ? `${facts.failed} failed` : "",
    facts.running ? `${facts.running} at work` : "",
    `${counted(facts.completed, "done", "done")}, ${facts.atOnce} at once`,
  ].filter(Boolean);
  const words = `${text.join(", ")}. Median ${duration(facts.median)}, longest ${duration(facts.longest)}`;
  const isRight = x + width + 340 < axis.width;
  return (
    <>
      <svg
        aria-hidden="true"
        className="absolute text-own"
        style={{ left: x }}
        width={width}
        height={18}
        preserveAspectRatio="none"
      >
        <path
          fill="currentColor"
          d={counts
            .map((each, at) => `M${at * 3} 18v${-(each ? Math.max(1, (each / most) * 18) : 0)}h2.4V18z`)
            .join("")}
        />
      </svg>
      <span
        className={`absolute truncate text-meta text-text-2 ${isRight || x > 340 ? "" : "sr-only"}`}
        style={isRight ? { left: x + width + 8 } : { right: axis.width - x + 8 }}
        title={words}
      >
        {words}
      </span>
    </>
  );
}

const WAITS: Record<string, LucideIcon> = {
  interaction: MessageCircleQuestionMark,
  timer: AlarmClock,
  signal: Radio,
  child: CornerDownRight,
};

/** The state of the row on the shown lineage. */
function RowIcon({ row, intervals }: { row: Row; intervals: readonly Interval[] }) {
  const [Icon, colour, name] = lookOf(row, intervals);
  return <Icon size={16} aria-label={name} className={`flex-none ${colour}`} />;
}

function lookOf(row: Row, intervals: readonly Interval[]): [LucideIcon, string, string] {
  if (row.kind === "group" || row.kind === "map") return [Layers, "text-text-2", "group"];
  const last = row.attempts.findLast((attempt) => !isLeft(attempt, intervals)) ?? row.attempts.at(-1);
  const wait = row.waits.at(-1);
  if (wait && (!last || wait.to === null)) {
    if (wait.to === null)
      return wait.kind === "child" ? [LoaderCircle, "text-run", "running"] : [Hourglass, "text-wait", "waiting"];
    if (wait.outcome === "failed") return [CircleX, "text-fail", "failed"];
    if (wait.outcome === "withdrawn" || wait.outcome === "cancelled") return [Ban, "text-text-2", wait.outcome];
    if (wait.kind === "child" || wait.outcome === "answered") return [CircleCheck, "text-done", "completed"];
    return [WAITS[wait.kind] ?? Hourglass, "text-text-2", wait.outcome];
  }
  switch (last?.outcome) {
    case "completed":
      return last.isCompensation ? [Undo2, "text-undo", "compensated"] : [CircleCheck, "text-done", "completed"];
    case "running":
      return [LoaderCircle, "text-run", "running"];
    case "failed":
      return [CircleX, "text-fail", "failed"];
    case "retrying":
      return [RotateCw, "text-wait", "is tried again"];
    case "lost":
      return [CircleX, "text-fail", "lost"];
    default:
      return [CircleDashed, "text-text-3", last?.outcome ?? "not begun"];
  }
}

/** What stands at the right of the name: attempts, branches, or who answered. */
function Note({ row }: { row: Row }) {
  const answered = row.waits.findLast((wait) => wait.by)?.by;
  if (answered) return <span className="inline-block max-w-24 truncate align-bottom">{answered}</span>;
  if (row.kind !== "node") return null;
  const branches = new Set(row.attempts.map((attempt) => attempt.branch)).size;
  if (branches > 1 && branches === row.attempts.length) return `${branches} branches`;
  return row.attempts.length > 1 ? `×${row.attempts.length}` : null;
}
