import { Clock, Maximize2, Minus, Plus } from "lucide-react";
import { useCallback, useMemo, useRef, useState } from "react";
import { axisOf, idleGaps } from "@/model/axis";
import { duration } from "@/model/durations";
import type { Row } from "@/model/rows";
import { Button } from "@/ui/Button";
import { Menu, MenuItem } from "@/ui/Menu";
import { useNow } from "@/ui/now";
import { Panel } from "@/ui/Panel";
import { Skeleton } from "@/ui/Skeleton";
import { useSettings } from "@/ui/settings";
import { Segments } from "@/ui/Tabs";
import "../timeline/bars.css";
import { useRun } from "../context";
import { DragToZoom } from "../timeline/DragToZoom";
import { Backdrop, HEAD, Head } from "../timeline/Head";
import { Legend } from "../timeline/Legend";
import { Rows } from "../timeline/Rows";
import { SelectedAttempt, SelectedWait } from "../timeline/Selected";
import { Strip } from "../timeline/Strip";
import { useRows } from "../timeline/use-rows";
import { useWidth } from "../timeline/use-visible";

const NAME = 300;
const TOOK = 104;
/** Groups of more rows than this are closed at first. */
const OPEN_ROWS = 60;

/** What ran when. */
export default function Timeline() {
  const { log, isComplete } = useRun();
  if (!log.seq) return <Skeleton lines={8} label="Loading the events" />;
  return (
    <>
      <Chart />
      {isComplete ? null : (
        <p className="mt-2 text-meta text-text-2">{log.seq.toLocaleString("en-US")} events are loaded so far.</p>
      )}
    </>
  );
}

function Chart() {
  const { detail, log, version, place, go, branch, run, isComplete } = useRun();
  const { zone, density } = useSettings();
  const seconds = useNow();
  const timeline = log.timelineAt(place.at);
  const isLive = !timeline.state.is_over && place.at === null;
  const now = isLive ? Math.max(seconds, timeline.last) : timeline.last;

  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [isCollapsed, setCollapsed] = useState(true);
  const [hasMarks, setMarks] = useState(true);
  const isOpen = useCallback(
    (row: Row) => {
      const isFirst = row.kind === "group" && row.rows.length <= OPEN_ROWS;
      return toggled.has(row.id) ? !isFirst : isFirst;
    },
    [toggled],
  );
  const rows = useRows(timeline, isOpen);

  const box = useRef<HTMLDivElement>(null);
  const outer = useWidth(box);
  const isNarrow = outer < 700;
  const nameWidth = isNarrow ? 12 : Math.min(NAME, outer * 0.3);
  const width = Math.max(120, outer - (isNarrow ? 24 : nameWidth + TOOK));
  const height = isNarrow ? 56 : density === "dense" ? 28 : 32;

  // The end of the axis of a live run moves in steps, so that bars keep their place for a while.
  const begin = timeline.created;
  const end = isLive ? begin + stepped(now - begin) : now;
  const from = Math.max(begin, place.from ?? begin);
  const to = Math.min(end, place.to ?? end);
  const isStalled = detail.status === "running" && !detail.holder?.live;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the spans change in place, with the version of the log
  const spans = useMemo(
    () => (isLive ? timeline.spansUntil(end, isStalled) : [...timeline.spans]),
    [timeline, version, isLive, end, isStalled],
  );
  const axis = useMemo(() => {
    const gaps = isCollapsed ? idleGaps(spans, from, to, isNarrow ? 6 : undefined) : [];
    return axisOf(from, to, width, gaps, isNarrow ? 22 : undefined);
  }, [spans, from, to, width, isCollapsed, isNarrow]);
  const marks = hasMarks ? timeline.marks : [];
  // biome-ignore lint/correctness/useExhaustiveDependencies: the branches change in place, with the version of the log
  const intervals = useMemo(() => log.lineage(branch, place.at), [log, version, branch, place.at]);

  const current = rows.findIndex((row) => row.id === place.node);
  const select = useCallback(
    (row: Row, bar: { attempt?: number; first: number } | null) =>
      go({ node: row.id, attempt: bar?.attempt ?? null, event: bar?.first ?? null }, { replace: true }),
    [go],
  );
  const toggle = useCallback((row: Row) => {
    setToggled((before) => {
      const next = new Set(before);
      if (!next.delete(row.id)) next.add(row.id);
      return next;
    });
  }, []);

  const zoom = (factor: number) => {
    const size = Math.max(5, (to - from) * factor);
    const chosen = rows[current]?.attempts.find((each) => each.first === place.event);
    const middle =
      chosen && factor < 1 ? ((chosen.started ?? chosen.scheduled) + (chosen.ended ?? now)) / 2 : (from + to) / 2;
    const next = { from: middle - size / 2, to: middle + size / 2 };
    if (next.from <= begin && next.to >= end) go({ from: null, to: null }, { replace: true });
    else
      go({ from: Math.round(Math.max(begin, next.from)), to: Math.round(Math.min(end, next.to)) }, { replace: true });
  };
  const fit = () => go({ from: null, to: null }, { replace: true });
  const move = (by: number) => {
    const row =
      rows[Math.max(0, Math.min(rows.length - 1, (current < 0 ? (by > 0 ? -1 : rows.length) : current) + by))];
    if (!row) return;
    select(row, row.attempts.at(-1) ?? row.waits.at(-1) ?? null);
    const y = rows.indexOf(row) * height;
    const element = box.current;
    if (!element) return;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + height > element.scrollTop + element.clientHeight - HEAD)
      element.scrollTop = y + height + HEAD - element.clientHeight;
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    const row = rows[current];
    const pan = (part: number) =>
      go({ from: Math.round(from + (to - from) * part), to: Math.round(to + (to - from) * part) }, { replace: true });
    const bars = row?.attempts ?? [];
    const at = bars.findIndex((each) => each.first === place.event);
    const actions: Record<string, () => void> = {
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      PageDown: () => move(20),
      PageUp: () => move(-20),
      Home: () => move(-rows.length),
      End: () => move(rows.length),
      ArrowRight: () => {
        if (event.shiftKey) pan(0.2);
        else if (row?.rows.length && !isOpen(row)) toggle(row);
        else if (row && bars[at + 1]) select(row, bars[at + 1] ?? null);
      },
      ArrowLeft: () => {
        if (event.shiftKey) pan(-0.2);
        else if (row && at > 0) select(row, bars[at - 1] ?? null);
        else if (row?.rows.length && isOpen(row)) toggle(row);
      },
      Enter: () => row && (row.rows.length || row.kind === "child") && toggle(row),
      "+": () => zoom(0.5),
      "=": () => zoom(0.5),
      "-": () => zoom(2),
      "0": fit,
      Escape: () => go({ node: null, attempt: null, event: null }, { replace: true }),
    };
    const action = actions[event.key];
    if (
      !action ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      ((event.target as HTMLElement).closest("a, button") !== null && event.key === "Enter")
    )
      return;
    event.preventDefault();
    event.stopPropagation();
    action();
  };

  const filter = place.attempts ?? "all";
  const isWhole = place.from === null && place.to === null;
  return (
    <>
      <Strip spans={isLive ? spans.map((span) => ({ ...span, to: Math.min(span.to, now) })) : spans} />
      <div className="mb-3 flex flex-wrap items-center gap-2">
        {timeline.branches.size > 1 ? (
          <Segments
            label="Branch"
            value={String(place.branch ?? "all")}
            onChange={(value) => go({ branch: value === "all" ? null : Number(value) }, { replace: true })}
            choices={[
              { value: "all", text: timeline.branches.size === 2 ? "Both branches" : "All branches" },
              ...[...timeline.branches.keys()].slice(-6).map((id) => ({ value: String(id), text: `Branch ${id}` })),
            ]}
          />
        ) : null}
        <Segments
          label="Attempts"
          value={filter}
          onChange={(value) => go({ attempts: value === "all" ? null : value }, { replace: true })}
          choices={[
            { value: "all", text: "All attempts" },
            { value: "last", text: "Last" },
            { value: "failed", text: "Failed" },
          ]}
        />
        <Menu
          trigger={
            <Button small>
              <Clock size={14} aria-hidden /> Window: {isWhole ? "whole run" : duration(to - from)}
            </Button>
          }
        >
          <MenuItem onSelect={fit}>The whole run</MenuItem>
          {WINDOWS.filter(([, size]) => size < end - begin).map(([text, size]) => (
            <MenuItem
              key={text}
              onSelect={() => go({ from: Math.round(now - size), to: Math.round(now) }, { replace: true })}
            >
              {text}
            </MenuItem>
          ))}
        </Menu>
        <span className="flex gap-1">
          <Button small square look="soft" aria-label="Zoom out" onClick={() => zoom(2)} disabled={isWhole}>
            <Minus size={14} aria-hidden />
          </Button>
          <Button small square look="soft" aria-label="Zoom in" onClick={() => zoom(0.5)}>
            <Plus size={14} aria-hidden />
          </Button>
          <Button small square look="soft" aria-label="Show the whole run" onClick={fit} disabled={isWhole}>
            <Maximize2 size={14} aria-hidden />
          </Button>
        </span>
        <span className="ml-auto flex flex-wrap gap-4 max-md:ml-0">
          <Tick checked={isCollapsed} onChange={setCollapsed}>
            Collapse idle time
          </Tick>
          <Tick checked={hasMarks} onChange={setMarks}>
            Marks
          </Tick>
        </span>
      </div>
      <Panel className="overflow-hidden">
        <div
          ref={box}
          className="relative max-h-[max(360px,calc(100dvh-180px))] overflow-x-hidden overflow-y-auto"
          data-testid="timeline"
        >
          {width > 120 ? (
            <>
              <div className="sticky top-0 z-10 border-b border-line bg-surface" style={{ height: HEAD }}>
                {isNarrow ? null : (
                  <>
                    <span className="absolute bottom-1.5 left-4 text-meta text-text-2">Node</span>
                    <span className="absolute right-4 bottom-1.5 text-meta text-text-2">Took</span>
                  </>
                )}
                <DragToZoom axis={axis} left={nameWidth} show={(window) => go(window, { replace: true })} />
                <Head
                  axis={axis}
                  marks={marks}
                  zone={zone}
                  now={now}
                  left={nameWidth}
                  press={(seq) => go({ tab: "events", event: seq })}
                />
              </div>
              <div className="relative" style={{ height: Math.max(rows.length * height, 64) }}>
                <Backdrop axis={axis} marks={marks} left={nameWidth} height={Math.max(rows.length * height, 64)} />
                {rows.length ? null : (
                  <p className="relative p-4 text-text-2">{isComplete ? "No node has begun yet." : ""}</p>
                )}
                <Rows
                  box={box}
                  rows={rows}
                  axis={axis}
                  now={now}
                  last={timeline.last}
                  isLive={isLive}
                  intervals={intervals}
                  filter={filter}
                  node={place.node}
                  event={place.event}
                  isOpen={isOpen}
                  height={height}
                  isNarrow={isNarrow}
                  nameWidth={nameWidth}
                  toggle={toggle}
                  select={select}
                  onKeyDown={onKeyDown}
                />
              </div>
            </>
          ) : (
            <Skeleton />
          )}
        </div>
        <Legend />
      </Panel>
      <Selected key={run} rows={rows} now={now} />
    </>
  );
}

const WINDOWS: [string, number][] = [
  ["The last minute", 60_000],
  ["The last 10 minutes", 600_000],
  ["The last hour", 3_600_000],
  ["The last day", 86_400_000],
];

/** The next of the lengths that the axis of a live run has: each is a sixth longer. */
function stepped(ms: number): number {
  return 1000 * (7 / 6) ** Math.ceil(Math.log(Math.max(ms, 1000) / 1000) / Math.log(7 / 6));
}

function Selected({ rows, now }: { rows: readonly Row[]; now: number }) {
  const { place, log, branch } = useRun();
  const row = rows.find((each) => each.id === place.node);
  if (!row) return null;
  const intervals = log.lineage(branch, place.at);
  const attempt =
    row.attempts.find((each) => each.first === place.event) ??
    row.attempts.findLast((each) => place.attempt === null || each.attempt === place.attempt);
  const wait = row.waits.find((each) => each.first === place.event);
  if (row.kind === "group" || row.kind === "map") return null;
  if (wait || !attempt) {
    const shown = wait ?? row.waits.at(-1);
    return shown ? <SelectedWait wait={shown} now={now} /> : null;
  }
  const followed = row.attempts[row.attempts.indexOf(attempt) + 1];
  return <SelectedAttempt attempt={attempt} followed={followed} intervals={intervals} now={now} />;
}

function Tick({
  checked,
  onChange,
  children,
}: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  children: string;
}) {
  return (
    <label className="flex cursor-pointer items-center gap-2 max-md:min-h-10">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => onChange(event.target.checked)}
        className="size-4 accent-ink"
      />
      {children}
    </label>
  );
}
