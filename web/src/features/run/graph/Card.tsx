import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { duration } from "@/model/durations";
import type { Interval } from "@/model/events";
import { mapFacts, type Row } from "@/model/rows";
import { messageOf, shortErrorName } from "@/model/trace";
import { oneLine } from "@/model/values";
import { Button } from "@/ui/Button";
import { Moment } from "@/ui/Moment";
import { addressOf, useRun } from "../context";
import { useLines } from "../lines";
import { COLOURS, lookOf } from "./looks";

/** What is known of the selected part. */
export function Card({ rows, intervals, now }: { rows: readonly Row[]; intervals: readonly Interval[]; now: number }) {
  const { place, state, detail, to, go } = useRun();
  const row = place.node === null ? null : find(rows, place.node);
  if (!row) return null;
  const { icon: Icon, state: look, word, attempt, ms } = lookOf(row, intervals, now);
  const node = state.nodes.get(row.id);
  const last = row.attempts.at(-1);
  const wait = row.waits.at(-1);
  const progress = place.at === null ? detail.progress.find((each) => each.node === row.id) : undefined;
  const error = node?.error ?? last?.error;
  const inputs = node?.started?.inputs ?? detail.nodes.find((each) => each.node === row.id)?.inputs;
  return (
    <section
      aria-label={`About ${row.id}`}
      className="absolute bottom-3 left-3 z-10 w-[min(380px,calc(100%-24px))] rounded-panel border border-line-strong bg-surface p-4 shadow-float"
    >
      <header className="flex items-start gap-2">
        <h2 className="min-w-0 flex-1 font-semibold break-words">{row.id.replace(/(\/|\[\])$/, "")}</h2>
        <Button
          look="flat"
          small
          square
          aria-label="Close"
          className="-mt-1 -mr-2"
          onClick={() => go({ node: null, attempt: null, event: null }, { replace: true })}
        >
          <X size={16} aria-hidden />
        </Button>
      </header>
      <p className={`mt-1 flex items-center gap-1.5 font-medium ${COLOURS[look]}`}>
        <Icon size={16} aria-hidden /> {word.charAt(0).toUpperCase() + word.slice(1)}
      </p>
      <dl className="mt-2 grid grid-cols-[72px_minmax(0,1fr)] gap-x-2 gap-y-1 text-meta">
        {row.kind === "map" ? <MapRows row={row} /> : null}
        {wait?.kind === "child" ? (
          <Fact name="Child run">
            <Link to={addressOf(wait.id, {})} className="link break-all">
              {wait.id}
            </Link>
          </Fact>
        ) : null}
        {ms !== null ? (
          <Fact name={look === "run" || look === "wait" ? "For" : "Took"}>
            {duration(ms)}
            {attempt > 1 ? `, at attempt ${attempt}` : ""}
          </Fact>
        ) : null}
        {last ? (
          <Fact name="Began">
            <Moment time={last.started ?? last.scheduled} precise />
          </Fact>
        ) : null}
        {progress ? (
          <Fact name="Progress">
            {progress.done}
            {progress.total === null ? "" : ` of ${progress.total}`} {progress.text}
          </Fact>
        ) : null}
        {wait?.kind === "interaction" ? <Fact name="Question">{wait.label}</Fact> : null}
        {wait?.by ? <Fact name="Answered">by {wait.by}</Fact> : null}
        {inputs !== undefined && inputs !== null ? (
          <Fact name="Input">
            <Value value={inputs} />
          </Fact>
        ) : null}
        {node?.status === "completed" ? (
          <Fact name="Output">
            <Value value={node.output} />
          </Fact>
        ) : null}
        {error ? (
          <Fact name="Error">
            <span className="text-fail">{shortErrorName(error.kind)}</span>: {messageOf(error)}
          </Fact>
        ) : null}
      </dl>
      {row.kind === "node" && look === "run" && place.at === null ? <Output node={row.id} attempt={attempt} /> : null}
      <p className="mt-3 flex flex-wrap gap-x-4 gap-y-1 text-meta">
        {wait?.kind === "child" ? (
          <Link to={addressOf(wait.id, {})} className="link">
            Open the child
          </Link>
        ) : null}
        <Link to={to({ tab: "timeline" })} className="link">
          In the timeline
        </Link>
        {row.kind === "node" ? (
          <>
            <Link to={to({ tab: "logs" })} className="link">
              Logs
            </Link>
            <Link to={to({ tab: "values" })} className="link">
              Inputs and outputs
            </Link>
          </>
        ) : null}
      </p>
    </section>
  );
}

const SHOWN_LINES = 4;

/** The newest lines that the attempt logged, as they come. */
function Output({ node, attempt }: { node: string; attempt: number }) {
  const { run, detail } = useRun();
  const { lines } = useLines(run, detail.at, node, attempt);
  if (!lines.length) return null;
  return (
    <pre className="mt-2 overflow-hidden rounded-control bg-code px-2 py-1">
      {lines.slice(-SHOWN_LINES).map((line) => (
        <span key={line.number} className="block truncate">
          {line.text.slice(0, 400)}
        </span>
      ))}
    </pre>
  );
}

function MapRows({ row }: { row: Row }) {
  const facts = mapFacts(row);
  return (
    <>
      <Fact name="Items">
        {facts.completed} of {facts.total} completed{facts.failed ? `, ${facts.failed} failed` : ""}
      </Fact>
      <Fact name="At once">{facts.atOnce}</Fact>
      <Fact name="Each">
        median {duration(facts.median)}, longest {duration(facts.longest)}
      </Fact>
    </>
  );
}

function Value({ value }: { value: unknown }) {
  return (
    <code className="inline-block max-w-full truncate rounded-control bg-code px-1.5 align-bottom">
      {oneLine(value, 160).text}
    </code>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-text-2">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </>
  );
}

function find(rows: readonly Row[], id: string): Row | null {
  for (const row of rows) {
    if (row.id === id) return row;
    const inner = row.rows.length ? find(row.rows, id) : null;
    if (inner) return inner;
  }
  return null;
}
