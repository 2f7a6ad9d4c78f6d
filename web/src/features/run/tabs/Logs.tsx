import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDownToLine, Download, ScrollText } from "lucide-react";
import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { View } from "@/api/client";
import { bytes, counted, preciseClock } from "@/model/durations";
import { plainName } from "@/model/names";
import { head } from "@/model/values";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { INPUT } from "@/ui/Field";
import { download } from "@/ui/JsonView";
import { LoadError } from "@/ui/LoadError";
import { ZoneNote } from "@/ui/Moment";
import { useIsWide } from "@/ui/media";
import { Panel } from "@/ui/Panel";
import { Skeleton } from "@/ui/Skeleton";
import { useSettings } from "@/ui/settings";
import { useRun } from "../context";
import { useLines } from "../lines";

type Line = View<"LogLineView">;

const LEVELS: Record<string, number> = { DEBUG: 10, INFO: 20, WARNING: 30, ERROR: 40, CRITICAL: 50 };
/** So many characters of a line are shown at first. */
const SHORT = 2_000;
/** Of a longer line the head is shown, and the whole is a download. */
const LONG = 64_000;

/** What the nodes of the run logged, of one node and attempt or of all; it follows what comes. */
export default function Logs() {
  const { run, detail, place, go, log } = useRun();
  const { lines, version, isComplete, error, hasMore, dropped, more, retry } = useLines(
    run,
    detail.at,
    place.node,
    place.attempt,
  );
  const [least, setLeast] = useState(0);
  const [text, setText] = useState("");
  const wanted = useDeferredValue(text.trim().toLowerCase());
  const until = place.at === null ? null : (log.event(place.at)?.time ?? 0) / 1000;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the lines change in place, with their version
  const shown = useMemo(
    () =>
      lines.filter(
        (line) =>
          (LEVELS[line.level] ?? 20) >= least &&
          (wanted === "" || line.text.toLowerCase().includes(wanted)) &&
          (until === null || Date.parse(line.time ?? "") <= until),
      ),
    [lines, version, least, wanted, until],
  );
  const attempts = detail.nodes.find((node) => node.node === place.node)?.attempt ?? 1;
  const isGoing = !["completed", "failed", "cancelled"].includes(detail.status) && place.at === null;
  const [isFollowing, setFollowing] = useState(isGoing);

  return (
    <Panel>
      <div className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2">
        <label htmlFor="node-of-lines" className="flex min-w-0 items-center gap-2">
          <span className="text-text-2">Node</span>
          <NodeChoice
            names={detail.nodes.map((node) => node.node)}
            node={place.node}
            onChange={(node) => go({ node, attempt: null }, { replace: true })}
          />
        </label>
        {place.node !== null && attempts > 1 ? (
          <label className="flex items-center gap-2">
            <span className="text-text-2">Attempt</span>
            <select
              className={`${INPUT} w-auto!`}
              value={place.attempt ?? ""}
              onChange={({ target }) => go({ attempt: target.value ? Number(target.value) : null }, { replace: true })}
            >
              <option value="">all</option>
              {Array.from({ length: attempts }, (_, i) => i + 1).map((attempt) => (
                <option key={attempt} value={attempt}>
                  {attempt}
                </option>
              ))}
            </select>
          </label>
        ) : null}
        <label className="flex items-center gap-2">
          <span className="text-text-2">Level</span>
          <select
            className={`${INPUT} w-auto!`}
            value={least}
            onChange={({ target }) => setLeast(Number(target.value))}
          >
            <option value={0}>all</option>
            <option value={20}>info and above</option>
            <option value={30}>warnings and errors</option>
            <option value={40}>errors</option>
          </select>
        </label>
        <input
          type="search"
          aria-label="Find in the lines"
          placeholder="Find a word"
          className={`${INPUT} w-48! max-md:w-full!`}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="text-meta text-text-2" role="status">
          {counted(shown.length, "line")}
          {hasMore ? " so far" : ""}
        </span>
        <div className="ml-auto flex items-center gap-2">
          {isGoing ? (
            <Button
              small
              aria-pressed={isFollowing}
              onClick={() => setFollowing(!isFollowing)}
              className="aria-pressed:bg-selected"
            >
              <ArrowDownToLine size={14} aria-hidden /> {isFollowing ? "Following" : "Follow"}
            </Button>
          ) : null}
          <Button look="soft" small onClick={() => save(shown, run)}>
            <Download size={14} aria-hidden /> Download
          </Button>
        </div>
      </div>
      {error && !lines.length ? (
        <LoadError what="The lines" error={error} retry={retry} />
      ) : shown.length ? (
        <List lines={shown} isFollowing={isFollowing} setFollowing={setFollowing} hasNode={place.node === null} />
      ) : isComplete ? (
        <EmptyState icon={ScrollText} title={lines.length ? "No line matches." : "Nothing was logged."}>
          {lines.length ? (
            "The lines are hidden by the filter."
          ) : (
            <>
              Lines that a node writes with <code>logging</code> or <code>print</code> appear here.
            </>
          )}
        </EmptyState>
      ) : (
        <Skeleton lines={8} />
      )}
      <p className="flex items-center gap-4 border-t border-line px-4 py-2 text-meta text-text-3">
        <ZoneNote />
        {dropped ? (
          <span>{counted(dropped, "earlier line")} are not kept here. Reload the page to see them.</span>
        ) : null}
        {hasMore ? (
          <Button small onClick={more}>
            Load more lines
          </Button>
        ) : null}
      </p>
    </Panel>
  );
}

/** The most nodes that one list shows. */
const MOST_NAMES = 200;

/** One of the nodes or all. Of many nodes those are offered that match what is typed. */
function NodeChoice({
  names,
  node,
  onChange,
}: {
  names: string[];
  node: string | null;
  onChange: (node: string | null) => void;
}) {
  const [typed, setTyped] = useState(node ?? "");
  if (names.length <= MOST_NAMES)
    return (
      <select
        id="node-of-lines"
        className={`${INPUT} w-auto! max-w-60`}
        value={node ?? ""}
        onChange={({ target }) => onChange(target.value || null)}
      >
        <option value="">all</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {plainName(name)}
          </option>
        ))}
      </select>
    );
  return (
    <>
      <input
        id="node-of-lines"
        type="search"
        list="names-of-nodes"
        placeholder={`all ${counted(names.length, "node")}`}
        spellCheck={false}
        className={`${INPUT} w-60!`}
        value={typed}
        onChange={({ target }) => {
          setTyped(target.value);
          if (!target.value || names.includes(target.value)) onChange(target.value || null);
        }}
      />
      <datalist id="names-of-nodes">
        {names
          .filter((name) => name.includes(typed))
          .slice(0, MOST_NAMES)
          .map((name) => (
            <option key={name} value={name} />
          ))}
      </datalist>
    </>
  );
}

function save(lines: readonly Line[], run: string): void {
  const text = lines.map((line) => `${line.time} ${line.level} ${line.node} (${line.attempt}) ${line.text}`).join("\n");
  download(`${text}\n`, `${run}.log`, "text/plain");
}

const HUES: Record<string, string> = { WARNING: "text-wait", ERROR: "text-fail", CRITICAL: "text-fail" };

function List({
  lines,
  isFollowing,
  setFollowing,
  hasNode,
}: {
  lines: readonly Line[];
  isFollowing: boolean;
  setFollowing: (isFollowing: boolean) => void;
  hasNode: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const zone = useSettings((settings) => settings.zone);
  const isWide = useIsWide(700);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => (isWide ? 22 : 42),
    overscan: 20,
    getItemKey: (index) => lines[index]?.number ?? index,
  });
  const count = lines.length;
  useEffect(() => {
    if (isFollowing && count) rows.scrollToIndex(count - 1, { align: "end" });
  }, [isFollowing, count, rows]);
  return (
    <div
      ref={box}
      role="log"
      aria-label="Log lines"
      tabIndex={0}
      onWheel={(event) => {
        if (event.deltaY < 0) setFollowing(false); // somebody reads further up
      }}
      onKeyDown={(event) => {
        if (["ArrowUp", "PageUp", "Home"].includes(event.key)) setFollowing(false);
      }}
      onTouchMove={() => setFollowing(false)}
      className="h-[max(320px,calc(100dvh-360px))] overflow-y-auto py-1"
    >
      <ol className="relative" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const line = lines[row.index];
          if (!line) return null;
          return (
            <li
              key={row.key}
              data-index={row.index}
              ref={rows.measureElement}
              className="absolute inset-x-0 flex gap-3 px-4 py-0.5 font-mono text-code hover:bg-hover max-md:flex-wrap max-md:gap-x-2 max-md:gap-y-0"
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <span className="flex-none text-text-3" title={line.time ?? ""}>
                {preciseClock(Date.parse(line.time ?? ""), zone)}
              </span>
              <span className={`w-16 flex-none max-md:w-auto ${HUES[line.level] ?? "text-text-2"}`}>{line.level}</span>
              {hasNode ? (
                <span className="w-40 flex-none truncate text-text-2 max-md:w-auto max-md:max-w-40" title={line.node}>
                  {plainName(line.node)}
                  {line.attempt > 1 ? ` (${line.attempt})` : ""}
                </span>
              ) : null}
              <Text line={line} />
            </li>
          );
        })}
      </ol>
    </div>
  );
}

/** The text of a line. A long one is cut; of a very long one the head is shown, and the whole is a download. */
function Text({ line: { text, node, attempt, place } }: { line: Line }) {
  const [isOpen, setOpen] = useState(false);
  const shown = head(text, isOpen ? LONG : SHORT);
  return (
    <span className="min-w-0 flex-1 break-words whitespace-pre-wrap max-md:basis-full">
      {shown.text}
      {shown.isCut ? (
        <span className="ml-2 inline-flex items-center gap-2 font-sans text-meta text-text-2">
          … {bytes(text.length)}.{isOpen ? ` The first ${bytes(LONG)} are shown.` : null}
          {isOpen ? null : (
            <button type="button" className="link" onClick={() => setOpen(true)}>
              Show {text.length > LONG ? `the first ${bytes(LONG)}` : "all"}
            </button>
          )}
          <button
            type="button"
            className="link"
            onClick={() => download(text, `${node}-${attempt}-${place}.log`, "text/plain")}
          >
            Download
          </button>
        </span>
      ) : null}
    </span>
  );
}
