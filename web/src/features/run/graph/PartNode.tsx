import { ChevronDown, ChevronRight, CornerDownRight, GitBranch } from "lucide-react";
import { memo } from "react";
import { count, duration } from "@/model/durations";
import type { Interval } from "@/model/events";
import { mapFacts, type Row } from "@/model/rows";
import { BOXES, COLOURS, lookOf, ORDER, type PartState, stateOf } from "./looks";
import { cellsOf } from "./use-layout";

export interface PartProps {
  row: Row;
  intervals: readonly Interval[];
  now: number;
  isOpen: boolean;
  isSelected: boolean;
  progress: { done: number; total: number | null; text: string } | null;
  toggle: (row: Row) => void;
  select: (row: Row) => void;
}

/** A node, a wait or a child: its state, its name, and how long it took or how far it is. */
export const PartNode = memo(function PartNode({ row, intervals, now, isSelected, progress, select }: PartProps) {
  const { state, icon: Icon, word, attempt, ms } = lookOf(row, intervals, now);
  const by = row.waits.at(-1)?.by;
  const facts = [
    ms === null ? "" : duration(ms, { whole: state === "run" && ms > 1000 }),
    attempt > 1 ? `attempt ${attempt}` : "",
    by ? `by ${by}` : "",
  ];
  const said = facts.filter(Boolean).join(", ") || word;
  return (
    <button
      type="button"
      aria-pressed={isSelected}
      aria-label={`${row.id.replace(/\/$/, "")}, ${word}, ${said}`}
      onClick={() => select(row)}
      title={row.id}
      className={`flex h-full w-full items-start gap-2 rounded-control border px-2.5 py-1.5 text-left ${BOXES[state]} ${isSelected ? "ring-2 ring-ink" : ""}`}
    >
      <Icon size={16} aria-hidden className={`mt-0.5 flex-none ${COLOURS[state]}`} />
      <span className="min-w-0 flex-1">
        <span className="flex gap-1.5 text-read leading-5">
          {row.kind === "child" ? (
            <CornerDownRight size={14} aria-hidden className="mt-1 flex-none text-text-2" />
          ) : null}
          <span className="truncate">{row.label}</span>
        </span>
        <span className="block truncate text-meta text-text-2">
          {progress
            ? `${count(progress.done)}${progress.total === null ? "" : ` of ${count(progress.total)}`} ${progress.text}`
            : said}
        </span>
      </span>
      {progress?.total ? (
        <span aria-hidden className="absolute inset-x-px bottom-px h-1 overflow-hidden rounded-b-control bg-line">
          <span
            className="block h-full bg-run-bar"
            style={{ width: `${Math.min(100, (progress.done / progress.total) * 100)}%` }}
          />
        </span>
      ) : null}
    </button>
  );
});

/** A group: its parts are inside, or counted if it is closed. */
export const GroupNode = memo(function GroupNode({ row, intervals, now, isOpen, isSelected, toggle }: PartProps) {
  const { state, icon: Icon, word, ms } = lookOf(row, intervals, now);
  const Chevron = isOpen ? ChevronDown : ChevronRight;
  return (
    <div
      className={`h-full w-full rounded-panel border ${isOpen ? "border-line bg-sunken" : BOXES[state]} ${isSelected ? "ring-2 ring-ink" : ""}`}
    >
      <button
        type="button"
        aria-expanded={isOpen}
        aria-label={`${row.label}, ${word}, ${row.rows.length} parts`}
        onClick={() => toggle(row)}
        className="flex h-8 w-full items-center gap-1.5 px-2.5 text-left"
      >
        <Chevron size={16} aria-hidden className="flex-none" />
        <span className="truncate text-read font-semibold">{row.label}</span>
        <span className="ml-auto flex-none pl-2 text-meta text-text-2">{ms === null ? "" : duration(ms)}</span>
      </button>
      {isOpen ? null : (
        <p className="flex items-center gap-1.5 truncate px-3 text-meta text-text-2">
          <Icon size={14} aria-hidden className={`flex-none ${COLOURS[state]}`} /> {row.rows.length} parts, {word}
        </p>
      )}
    </div>
  );
});

const FILLS: Record<PartState, string> = {
  done: "fill-done-bar",
  run: "fill-run-bar",
  wait: "fill-wait-bar",
  fail: "fill-fail-bar",
  retry: "fill-wait-bar",
  undo: "fill-undo-bar",
  idle: "fill-line-strong",
};

/** A map: its items as cells, by their state. */
export const MapNode = memo(function MapNode({ row, intervals, now, isSelected, toggle, select }: PartProps) {
  const { state, ms } = lookOf(row, intervals, now);
  const facts = mapFacts(row);
  const { size, columns, lines } = cellsOf(row.rows.length);
  const cells = new Map<PartState, string>();
  for (let at = 0; at * size < row.rows.length; at++) {
    const states = row.rows.slice(at * size, (at + 1) * size).map((each) => stateOf(each, intervals));
    const cell = ORDER.find((each) => states.includes(each)) ?? "idle";
    const path = `M${(at % columns) * 8.5} ${Math.floor(at / columns) * 8}h7v6.5h-7z`;
    cells.set(cell, (cells.get(cell) ?? "") + path);
  }
  return (
    <div
      className={`h-full w-full rounded-panel border ${state === "fail" ? BOXES.fail : "border-line bg-sunken"} ${isSelected ? "ring-2 ring-ink" : ""}`}
    >
      <span className="flex h-8 items-center gap-1.5 px-2.5">
        <button
          type="button"
          aria-label={`Open ${row.label}`}
          aria-expanded={false}
          onClick={() => toggle(row)}
          className="-m-1 flex-none rounded-control p-1 hover:bg-hover"
        >
          <ChevronRight size={16} aria-hidden />
        </button>
        <button type="button" onClick={() => select(row)} className="truncate text-read font-semibold" title={row.id}>
          {row.label}
        </button>
        <span className="ml-auto flex-none text-meta text-text-2">{ms === null ? "" : duration(ms)}</span>
      </span>
      <svg aria-hidden="true" className="mx-3" width={columns * 8.5} height={lines * 8}>
        {[...cells].map(([cell, path]) => (
          <path key={cell} d={path} className={FILLS[cell]} />
        ))}
      </svg>
      <p className="truncate px-3 pt-1 text-meta text-text-2">
        {row.detail.split(" ")[0] === "×" ? "" : `${row.detail.split(" ")[0]}: `}
        {count(facts.completed)} of {count(row.rows.length)} done{facts.failed ? `, ${facts.failed} failed` : ""}
      </p>
    </div>
  );
});

/** Another branch, where it parts from the shown one. */
export function BranchNode({ text, note, press }: { text: string; note: string; press: () => void }) {
  return (
    <button
      type="button"
      onClick={press}
      className="flex h-full w-full items-start gap-2 rounded-panel border border-dashed border-line-strong bg-surface px-3 py-2 text-left hover:bg-hover"
    >
      <GitBranch size={16} aria-hidden className="mt-0.5 flex-none text-undo" />
      <span className="min-w-0">
        <span className="block truncate font-semibold">{text}</span>
        <span className="line-clamp-2 text-meta text-text-2">{note}</span>
      </span>
    </button>
  );
}

/** What the code decides when the parts before it have ended. */
export function NextNode() {
  return (
    <div className="h-full w-full rounded-panel border border-dashed border-line-strong bg-surface px-3 py-1.5">
      <p className="font-semibold">What follows</p>
      <p className="text-meta text-text-2">is decided when they end</p>
    </div>
  );
}
