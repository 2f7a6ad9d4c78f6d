import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { Braces, CornerUpLeft, Download, History, Layers, X } from "lucide-react";
import { memo, useDeferredValue, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { Link } from "react-router";
import { stringify } from "@/api/json";
import { useMay } from "@/api/queries";
import { counted, preciseClock } from "@/model/durations";
import type { LogEvent } from "@/model/events";
import { plainName } from "@/model/names";
import { Button } from "@/ui/Button";
import { copy } from "@/ui/CopyId";
import { Dialog } from "@/ui/Dialog";
import { EmptyState } from "@/ui/EmptyState";
import { INPUT } from "@/ui/Field";
import { download, JsonView } from "@/ui/JsonView";
import { useKeys } from "@/ui/keys";
import { Moment, ZoneNote } from "@/ui/Moment";
import { useIsWide, useRowHeight } from "@/ui/media";
import { Panel } from "@/ui/Panel";
import { useSettings } from "@/ui/settings";
import { useActions } from "../../actions/store";
import { useRun } from "../context";

/** Every event of the log, of one branch or of all. */
export default function Events() {
  const { log, version, events, place, branch, detail, run, isComplete, go } = useRun();
  const [isAll, setAll] = useState(false);
  const [text, setText] = useState("");
  const wanted = useDeferredValue(text.trim().toLowerCase());
  // biome-ignore lint/correctness/useExhaustiveDependencies: the log changes in place, with its version
  const shown = useMemo(() => {
    const all = isAll ? log.events.slice(0, place.at ?? log.events.length) : events;
    const { node } = place;
    const ofNode = node === null ? all : all.filter((event) => event.fields.node === node);
    return wanted === "" ? ofNode : ofNode.filter((event) => matches(event, wanted));
  }, [isAll, events, log, version, place.at, place.node, wanted]);
  const selected = place.event === null ? null : (log.event(place.event) ?? null);
  const isWide = useIsWide(1100);
  const select = (seq: number | null) => go({ event: seq }, { replace: true });
  const branches = [...log.timeline.branches.keys()];

  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_minmax(320px,400px)]">
      <Panel className={selected && isWide ? "" : "lg:col-span-2"}>
        <div className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2">
          <label className="flex items-center gap-2">
            <span className="text-text-2">Branch</span>
            <select
              className={`${INPUT} w-auto!`}
              value={isAll ? "all" : branch}
              onChange={({ target: { value } }) => {
                setAll(value === "all");
                if (value !== "all")
                  go({ branch: Number(value) === detail.branch ? null : Number(value), event: null });
              }}
            >
              {branches.map((id) => (
                <option key={id} value={id}>
                  {id}
                  {id === detail.branch ? ", current" : ""}
                </option>
              ))}
              <option value="all">all, in the order of the log</option>
            </select>
          </label>
          <input
            type="search"
            aria-label="Find in events"
            placeholder="Find a type, a node or a word"
            className={`${INPUT} w-60! max-md:w-full!`}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          {place.node !== null ? (
            <Button small onClick={() => go({ node: null }, { replace: true })}>
              of {plainName(place.node)} <X size={14} aria-label="Show all nodes" />
            </Button>
          ) : null}
          <span className="text-meta text-text-2" role="status">
            {counted(shown.length, "event")}
            {isComplete ? "" : ", loading…"}
          </span>
          <Button
            look="soft"
            small
            className="ml-auto"
            onClick={() => download(stringify(shown.map(plain), 1), `${run}.events.json`, "application/json")}
          >
            <Download size={14} aria-hidden /> Download
          </Button>
        </div>
        {shown.length ? (
          <List events={shown} selected={place.event} select={select} hasBranches={isAll} current={detail.branch} />
        ) : isComplete ? (
          <EmptyState
            icon={Layers}
            title="No event matches."
            action={
              <Button
                onClick={() => {
                  setText("");
                  go({ node: null }, { replace: true });
                }}
              >
                Clear the filter
              </Button>
            }
          />
        ) : null}
        <p className="border-t border-line px-4 py-2 text-meta text-text-3">
          <ZoneNote />
        </p>
      </Panel>
      {selected && isWide ? (
        <Panel
          className="sticky top-16"
          title={`Event ${selected.seq}`}
          end={
            <Button look="flat" small square aria-label="Close the event" onClick={() => select(null)}>
              <X size={14} aria-hidden />
            </Button>
          }
        >
          <div className="px-4 py-3">
            <Selected event={selected} />
          </div>
        </Panel>
      ) : null}
      {selected && !isWide ? (
        <Dialog open onClose={() => select(null)} title={`Event ${selected.seq}`}>
          <Selected event={selected} />
        </Dialog>
      ) : null}
    </div>
  );
}

const plain = ({ seq, branch, time, type, fields }: LogEvent) => ({
  ...{ seq, branch, type, fields },
  time: new Date(time / 1000).toISOString(),
});

const matches = (event: LogEvent, wanted: string): boolean =>
  event.type.toLowerCase().includes(wanted) ||
  event.text.toLowerCase().includes(wanted) ||
  String(event.fields.node ?? "")
    .toLowerCase()
    .includes(wanted) ||
  String(event.seq) === wanted;

function List({
  events,
  selected,
  select,
  hasBranches,
  current,
}: {
  events: readonly LogEvent[];
  selected: number | null;
  select: (seq: number | null) => void;
  hasBranches: boolean;
  current: number;
}) {
  const list = useRef<HTMLOListElement>(null);
  const height = useRowHeight();
  const [top, setTop] = useState(0);
  const zone = useSettings((settings) => settings.zone);
  useLayoutEffect(() => {
    // What stands above the list comes and goes.
    if (list.current) setTop(Math.round(list.current.getBoundingClientRect().top + scrollY));
  });
  const rows = useWindowVirtualizer({
    count: events.length,
    estimateSize: () => height,
    overscan: 8,
    useFlushSync: false,
    scrollMargin: top,
    scrollPaddingStart: 64,
    scrollPaddingEnd: 64,
  });
  const at = selected === null ? -1 : indexOf(events, selected);
  const first = useRef(true);
  useEffect(() => {
    if (first.current && at >= 0 && top) rows.scrollToIndex(at, { align: "center" });
    if (top) first.current = false;
  }, [at, top, rows]);
  const move = (step: number) => {
    const next = Math.min(events.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : events.length - 1) : at + step));
    const event = events[next];
    if (!event) return;
    select(event.seq);
    rows.scrollToIndex(next, { align: "auto" });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Escape: () => select(null),
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: another height of rows changes all positions
  useEffect(() => rows.measure(), [height]);
  return (
    <ol ref={list} aria-label="Events" className="relative" style={{ height: rows.getTotalSize() }}>
      {rows.getVirtualItems().map((row) => {
        const event = events[row.index];
        if (!event) return null;
        return (
          <li
            key={event.seq}
            aria-setsize={events.length}
            aria-posinset={row.index + 1}
            className="absolute inset-x-0"
            style={{ height, transform: `translateY(${row.start - top}px)` }}
          >
            <Row
              event={event}
              time={preciseClock(event.time / 1000, zone)}
              isSelected={event.seq === selected}
              select={select}
              branch={hasBranches ? event.branch : null}
              isLeft={event.branch !== current}
            />
          </li>
        );
      })}
    </ol>
  );
}

/** Where the event is in an ascending list; -1 if it is not. */
function indexOf(events: readonly LogEvent[], seq: number): number {
  let low = 0;
  let high = events.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = events[middle]?.seq ?? 0;
    if (found === seq) return middle;
    if (found < seq) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

const Row = memo(function Row({
  event,
  time,
  isSelected,
  select,
  branch,
  isLeft,
}: {
  event: LogEvent;
  time: string;
  isSelected: boolean;
  select: (seq: number | null) => void;
  branch: number | null;
  isLeft: boolean;
}) {
  const columns =
    branch === null
      ? "md:grid-cols-[44px_96px_176px_minmax(0,1fr)]"
      : "md:grid-cols-[44px_96px_72px_176px_minmax(0,1fr)]";
  return (
    <button
      type="button"
      aria-pressed={isSelected}
      onClick={() => select(isSelected ? null : event.seq)}
      className={`grid h-full w-full grid-cols-[44px_minmax(0,1fr)_auto] content-center items-center gap-x-3 border-b border-line px-4 text-left hover:bg-hover aria-pressed:bg-selected ${columns}`}
    >
      <span className="text-right font-mono text-code text-text-3 max-md:row-span-2">{event.seq}</span>
      <span className="font-mono text-code text-text-2 max-md:order-1">{time}</span>
      {branch === null ? null : (
        <span className={`text-meta max-md:hidden ${isLeft ? "text-undo" : "text-text-2"}`}>branch {branch}</span>
      )}
      <span className="truncate font-mono text-code">{event.type}</span>
      <span className="truncate text-text-2 max-md:order-2 max-md:col-span-2">{event.text}</span>
    </button>
  );
});

/** One event: its sentence, its fields, and what starts from it. */
function Selected({ event }: { event: LogEvent }) {
  const { run, detail, go, to } = useRun();
  const may = useMay("runs:jump") && detail.actions.some((action) => action.action === "jump");
  const [isCopied, setCopied] = useState(false);
  const node = typeof event.fields.node === "string" ? event.fields.node : "";
  return (
    <div className="flex flex-col gap-3">
      <div>
        <p className="font-mono text-code">{event.type}</p>
        <p className="break-words">{event.text}</p>
        <p className="mt-1 text-meta text-text-2">
          <Moment time={event.time / 1000} precise />, branch {event.branch}
        </p>
      </div>
      <div className="flex flex-wrap gap-2">
        {may ? (
          <Button small onClick={() => useActions.getState().ask({ kind: "jump", run, to: event.seq })}>
            <CornerUpLeft size={14} aria-hidden /> Go back to here…
          </Button>
        ) : null}
        <Button small onClick={() => go({ at: event.seq })}>
          <History size={14} aria-hidden /> Show as of here
        </Button>
        {node ? (
          <Button small asChild>
            <Link to={to({ tab: "values", node, event: null })}>
              <Braces size={14} aria-hidden /> Values of {plainName(node).slice(0, 24)}
            </Link>
          </Button>
        ) : null}
        <Button small onClick={async () => setCopied(await copy(stringify(plain(event), 2)))}>
          {isCopied ? "Copied" : "Copy JSON"}
        </Button>
      </div>
      <JsonView value={event.fields} name={`event-${event.seq}.json`} />
    </div>
  );
}
