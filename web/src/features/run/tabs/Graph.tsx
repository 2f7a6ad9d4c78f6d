import { Search } from "lucide-react";
import { Suspense, useCallback, useMemo, useState } from "react";
import { lazyPart } from "@/api/parts";
import { count, counted } from "@/model/durations";
import type { Interval } from "@/model/events";
import { closedGroups, graphOf } from "@/model/graph";
import type { Placed } from "@/model/layout";
import { plainName } from "@/model/names";
import { type Row, rowsOf } from "@/model/rows";
import { Button } from "@/ui/Button";
import { INPUT } from "@/ui/Field";
import { useNow } from "@/ui/now";
import { Panel } from "@/ui/Panel";
import { Skeleton } from "@/ui/Skeleton";
import { Segments } from "@/ui/Tabs";
import { useRun } from "../context";
import { Card } from "../graph/Card";
import { GroupList } from "../graph/GroupList";
import { stateOf } from "../graph/looks";
import { type Drawn, type Line, useDrawn } from "../graph/use-drawn";
import { useLayout } from "../graph/use-layout";

const FlowView = lazyPart(() => import("../graph/FlowView"));
const CanvasView = lazyPart(() => import("../graph/CanvasView"));

/** Above so many parts, groups are closed; above the other, the rest is drawn on a canvas. */
const MOST = 150;
const MOST_ELEMENTS = 1000;
const MOST_LINES = 2000;

/** What ran, and what led to what. */
export default function Graph() {
  const { log } = useRun();
  if (!log.seq) return <Skeleton lines={8} label="Loading the events" />;
  return <Loaded />;
}

function Loaded() {
  const { detail, log, version, place, go, branch } = useRun();
  const seconds = useNow();
  const timeline = log.timelineAt(place.at);
  const isLive = !timeline.state.is_over && place.at === null;
  const now = isLive ? Math.max(seconds, timeline.last) : timeline.last;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline changes in place, with the version of the log
  const rows = useMemo(() => rowsOf(timeline, Math.min(branch, timeline.state.branch)), [timeline, version, branch]);
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const closed = useMemo(() => closedGroups(rows, MOST, chosen), [rows, chosen]);
  const graph = useMemo(() => graphOf(rows, (row) => !closed.has(row.id)), [rows, closed]);
  const places = useLayout(graph);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the branches change in place, with the version of the log
  const intervals = useMemo(
    () => timeline.lineage(Math.min(branch, timeline.state.branch)),
    [timeline, version, branch],
  );

  const toggle = useCallback(
    (row: Row) => setChosen((before) => new Map(before).set(row.id, closed.has(row.id))),
    [closed],
  );
  const select = useCallback((row: Row) => go({ node: row.id, attempt: null, event: null }, { replace: true }), [go]);
  const { progress: reported } = detail;
  const progress = useCallback(
    (node: string) => (place.at === null ? (reported.find((each) => each.node === node) ?? null) : null),
    [reported, place.at],
  );
  const isWorking = useCallback(
    (row: Row): boolean => {
      if (row.rows.length) return row.rows.some(isWorking);
      const state = stateOf(row, intervals);
      return state === "run" || state === "wait" || state === "retry";
    },
    [intervals],
  );
  const {
    drawn,
    lines,
    count: size,
  } = useDrawn({ graph, intervals, now, selected: place.node, progress, toggle, select, isWorking });
  const around = useAround(drawn, lines, places, isLive);

  const [isDrawn, setDrawn] = useState(() => innerWidth >= 700);
  const [focus, setFocus] = useState<string | null>(null);
  const hidden = closed.size;
  const Part = size > MOST_ELEMENTS || lines.length > MOST_LINES ? CanvasView : FlowView;
  return (
    <Panel className="overflow-hidden">
      <div className="flex flex-wrap items-center gap-3 border-b border-line px-3 py-2">
        {timeline.branches.size > 1 ? (
          <Segments
            label="Branch"
            value={String(branch)}
            onChange={(value) =>
              go({ branch: Number(value) === detail.branch ? null : Number(value) }, { replace: true })
            }
            choices={[...timeline.branches.keys()]
              .slice(-6)
              .reverse()
              .map((id) => ({ value: String(id), text: `Branch ${id}` }))}
          />
        ) : null}
        <span className="text-meta text-text-2">
          {counted(size, "part")}
          {hidden ? `, ${counted(hidden, "closed group")}` : ""}
        </span>
        <span className="ml-auto flex items-center gap-2">
          <FindNode
            rows={rows}
            found={(row, path) => {
              setChosen((before) => new Map([...before, ...path.map((id): [string, boolean] => [id, true])]));
              setFocus(row.id);
              select(row);
            }}
          />
        </span>
      </div>
      {isDrawn ? (
        <div
          className="relative min-h-96 max-h-[max(480px,calc(100dvh-240px))]"
          style={{ height: heightOf(around?.places) + (place.node === null ? 0 : 180) }}
          data-testid="graph"
        >
          <Suspense fallback={<Skeleton label="Loading the graph" />}>
            {around ? (
              <Part
                drawn={around.drawn}
                lines={around.lines}
                places={around.places}
                focus={focus}
                isAtEnd={isLive}
                select={select}
              />
            ) : (
              <Skeleton label="Laying out the graph" />
            )}
          </Suspense>
          <Card rows={rows} intervals={intervals} now={now} />
        </div>
      ) : (
        <>
          <GroupList rows={rows} intervals={intervals} now={now} select={select} />
          <p className="border-t border-line p-3">
            <Button onClick={() => setDrawn(true)}>Draw the graph of {count(size)} parts</Button>
          </p>
        </>
      )}
    </Panel>
  );
}

/** The branches that were left, as one part each below where they parted, and what is not decided yet. */
function useAround(drawn: Drawn[], lines: Line[], places: Map<string, Placed> | null, isLive: boolean) {
  const { log, place, branch, go } = useRun();
  return useMemo(() => {
    if (!places) return null;
    const timeline = log.timelineAt(place.at);
    const all = { drawn: [...drawn], lines: [...lines], places: new Map(places) };
    let [right, bottom] = [0, 0];
    for (const each of places.values()) {
      right = Math.max(right, each.x + each.width);
      bottom = Math.max(bottom, each.y + each.height);
    }
    const top = drawn.flatMap((each) => (each.is === "part" && each.props.row.depth === 0 ? [each] : []));
    const intervals = log.lineage(branch, place.at);
    const left = [...timeline.branches.values()]
      .map((each) => ({ ...each, seen: seenTo(each, intervals) }))
      .filter((each) => each.id !== branch && each.last > each.seen)
      .slice(-5);
    left.forEach((each, at) => {
      const cutoff = each.seen || each.cutoff;
      const from = top.findLast(({ props }) => lastOf(props.row) <= cutoff);
      const x = from ? (places.get(from.id)?.x ?? 0) + (places.get(from.id)?.width ?? 0) + 44 : 0;
      const state = log.stateOf(each.id, place.at);
      const nodes = new Set(
        timeline.attempts
          .filter((attempt) => attempt.branch === each.id && attempt.last > each.seen)
          .map((attempt) => plainName(attempt.node)),
      );
      const id = `branch ${each.id}`;
      const note = `${[...nodes].slice(0, 4).join(", ")}${nodes.size > 4 ? ` and ${nodes.size - 4} more` : ""}${nodes.size ? ". " : ""}${state.status === "completed" ? "Completed" : state.status === "failed" ? "Failed" : ""}`;
      all.drawn.push({
        is: "branch",
        id,
        text: `Branch ${each.id}, ${each.id > branch ? "which was opened here" : "left and kept"}`,
        note,
        press: () => go({ branch: each.id }),
      });
      all.places.set(id, { x, y: bottom + 40 + at * 84, width: 320, height: 68 });
      if (from) all.lines.push({ from: from.id, to: id, is: "branch" });
    });
    const front = top.filter(({ id }) => !lines.some((line) => line.from === id));
    if (isLive && branch === timeline.state.branch && front.length) {
      const middle =
        front.reduce((sum, { id }) => sum + (places.get(id)?.y ?? 0) + (places.get(id)?.height ?? 0) / 2, 0) /
        front.length;
      all.drawn.push({ is: "next", id: "what follows" });
      all.places.set("what follows", { x: right + 44, y: middle - 26, width: 208, height: 52 });
      for (const { id } of front) all.lines.push({ from: id, to: "what follows", is: "branch" });
    }
    return all;
  }, [drawn, lines, places, isLive, log, place.at, branch, go]);
}

const heightOf = (places: Map<string, Placed> | undefined): number =>
  [...(places?.values() ?? [])].reduce((most, each) => Math.max(most, each.y + each.height), 0) + 140;

/** The last event of a branch that a lineage sees; 0 if it sees none. */
function seenTo({ first, last }: { first: number; last: number }, intervals: readonly Interval[]): number {
  return intervals.reduce(
    (most, [begin, end]) => (begin <= last && end >= first ? Math.max(most, Math.min(end, last)) : most),
    0,
  );
}

function lastOf(row: Row): number {
  const own = [...row.attempts, ...row.waits].reduce((most, bar) => Math.max(most, bar.last), 0);
  return row.rows.reduce((most, each) => Math.max(most, lastOf(each)), own);
}

/** Find a node by its name, and open what holds it. */
function FindNode({ rows, found }: { rows: readonly Row[]; found: (row: Row, path: string[]) => void }) {
  const [text, setText] = useState("");
  const matches = useMemo(() => (text.length > 1 ? search(rows, text.toLowerCase()) : []), [rows, text]);
  return (
    <form
      className="relative"
      onSubmit={(event) => {
        event.preventDefault();
        const [first] = matches;
        if (first) found(first.row, first.path);
      }}
    >
      <Search size={14} aria-hidden className="absolute top-1/2 left-2.5 -translate-y-1/2 text-text-2" />
      <input
        type="search"
        aria-label="Find a node"
        placeholder="Find a node"
        value={text}
        onChange={(event) => setText(event.target.value)}
        list="graph-nodes"
        className={`${INPUT} w-52 pl-8`}
      />
      <datalist id="graph-nodes">
        {matches.map(({ row }) => (
          <option key={row.id} value={row.id} />
        ))}
      </datalist>
    </form>
  );
}

function search(
  rows: readonly Row[],
  text: string,
  path: string[] = [],
  into: { row: Row; path: string[] }[] = [],
): { row: Row; path: string[] }[] {
  for (const row of rows) {
    if (into.length >= 20) break;
    if (row.id.toLowerCase().includes(text)) into.push({ row, path });
    search(row.rows, text, [...path, row.id], into);
  }
  return into;
}
