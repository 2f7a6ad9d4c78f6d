import { ArrowDown, ArrowUp } from "lucide-react";
import { Link } from "react-router";
import type { View } from "@/api/client";
import { now } from "@/api/clock";
import { type Attribute, isNumber, isTime } from "@/model/attributes";
import { shortId } from "@/model/names";
import { Changed } from "@/ui/Changed";
import type { Column } from "@/ui/DataTable";
import { Since } from "@/ui/Duration";
import { Moment } from "@/ui/Moment";
import { needsPerson, StatusBadge, statusOf } from "@/ui/StatusBadge";
import type { ColumnKey } from "./views";
import { hasWhy, Why } from "./Why";

type Run = View<"RunView">;

const OVER = new Set(["completed", "failed", "cancelled"]);

/** What a row knows besides its run. */
export interface Beside {
  isUnknown: (workflow: string) => boolean;
  progress: Map<string, View<"ProgressView">[]>;
}

export const COLUMN_NAMES: Record<ColumnKey, string> = {
  status: "Status",
  run: "Run",
  workflow: "Workflow",
  why: "Waits for, or why",
  since: "Since",
  created: "Created",
  took: "Took",
  tags: "Tags",
  worker: "Worker",
  version: "Version",
};

/** As wide as the moments are written: today, in this year, or before. */
function momentWidth(oldest: string): string {
  const then = new Date(oldest || now());
  const today = new Date(now());
  if (then.toDateString() === today.toDateString()) return "88px";
  return then.getFullYear() === today.getFullYear() ? "112px" : "148px";
}

/** How the list is sorted, and what changes that. Without a sort it is newest first. */
export interface Order {
  sort: string;
  onSort: (sort: string) => void;
}

/** The columns, with those of search attributes before the tags. */
export function columnsOf(
  shown: readonly ColumnKey[],
  attributes: readonly string[],
  rows: readonly Run[],
  beside: Beside,
  order: Order,
): Column<Run>[] {
  const oldest = rows.at(-1)?.created ?? "";
  const all: Record<ColumnKey, Omit<Column<Run>, "key" | "name">> = {
    status: { width: "124px", cell: (run) => <Badge run={run} /> },
    run: {
      width: "minmax(150px, 1.1fr)",
      cell: (run) => (
        <span className="flex min-w-0 items-center gap-2.5">
          <RunLink run={run} />
          <span className="truncate text-text-2" title={run.title}>
            {run.title}
          </span>
        </span>
      ),
    },
    workflow: {
      width: "minmax(104px, 0.4fr)",
      cell: (run) => (
        <span title={run.workflow} className="text-text-2">
          {run.workflow}
        </span>
      ),
    },
    why: { width: "minmax(160px, 1.5fr)", cell: (run) => <WhyOf run={run} {...beside} /> },
    since: { width: "92px", right: true, cell: (run) => <SinceOf run={run} /> },
    created: {
      width: momentWidth(oldest),
      right: true,
      cell: (run) => <Moment time={run.created} className="text-text-2" />,
    },
    took: { width: "100px", right: true, cell: (run) => <Took run={run} /> },
    tags: { width: "104px", cell: (run) => <Tags tags={run.tags} /> },
    worker: { width: "96px", cell: (run) => (run.holder ? <code>{shortId(run.holder.worker)}</code> : <None />) },
    version: { width: "96px", cell: (run) => <code title={run.version}>{run.version.slice(0, 8)}</code> },
  };
  const own = shown.map(
    (key): Column<Run> =>
      key === "created" ? { key, ...all[key], ...created(order) } : { key, name: COLUMN_NAMES[key], ...all[key] },
  );
  const at = own.findIndex(({ key }) => ["tags", "worker", "version"].includes(key));
  return own.toSpliced(at < 0 ? own.length : at, 0, ...attributes.map((name) => attributeColumn(name, rows, order)));
}

function created({ sort, onSort }: Order): Pick<Column<Run>, "name" | "sorted"> {
  const sorted = sort === "" ? "descending" : undefined;
  const name = COLUMN_NAMES.created;
  return { name: <Heading name={name} title="Newest first" sorted={sorted} onClick={() => onSort("")} />, sorted };
}

function attributeColumn(name: string, rows: readonly Run[], { sort, onSort }: Order): Column<Run> {
  const sorted = sort === name ? "ascending" : sort === `-${name}` ? "descending" : undefined;
  const next = sorted === undefined ? name : sorted === "ascending" ? `-${name}` : "";
  const values = rows.map((run) => run.attributes[name]).filter((value) => value !== undefined);
  return {
    key: `attribute ${name}`,
    name: <Heading name={name} title={`Sort by ${name}`} sorted={sorted} onClick={() => onSort(next)} />,
    width: "96px",
    right: values.length > 0 && values.every(isNumber),
    sorted,
    cell: (run) => {
      const value = run.attributes[name];
      return value === undefined ? <None /> : <AttributeValue value={value} />;
    },
  };
}

/** The heading of a column by which the list can be sorted. */
function Heading({
  name,
  title,
  sorted,
  onClick,
}: {
  name: string;
  title: string;
  sorted: "ascending" | "descending" | undefined;
  onClick: () => void;
}) {
  const Arrow = sorted === "ascending" ? ArrowUp : ArrowDown;
  return (
    <button
      type="button"
      title={title}
      onClick={onClick}
      className={`inline-flex max-w-full items-center gap-1 align-bottom hover:text-text ${sorted ? "font-semibold text-text" : ""}`}
    >
      {sorted ? <Arrow size={12} aria-hidden className="flex-none" /> : null}
      <span className="truncate">{name}</span>
    </button>
  );
}

export function AttributeValue({ value }: { value: Attribute }) {
  if (isTime(value)) return <Moment time={value.time} />;
  const text = typeof value === "string" ? value : String(value);
  return <code title={text}>{text}</code>;
}

/** The row on narrow screens. */
export function NarrowRow({ run, ...beside }: { run: Run } & Beside) {
  return (
    <div className="flex flex-col gap-0.5">
      <div className="flex items-center justify-between gap-3">
        <Badge run={run} />
        <SinceOf run={run} />
      </div>
      <div className="flex min-w-0 items-baseline gap-2.5">
        <RunLink run={run} />
        <span className="truncate text-text-2">{run.title}</span>
      </div>
      {hasWhy(run, beside.isUnknown(run.workflow)) ? <WhyOf run={run} {...beside} /> : null}
    </div>
  );
}

function WhyOf({ run, isUnknown, progress }: { run: Run } & Beside) {
  return <Why run={run} isUnknown={isUnknown(run.workflow)} progress={progress.get(run.run) ?? run.progress} />;
}

function Badge({ run }: { run: Run }) {
  return (
    <Changed value={statusOf(run)}>
      <StatusBadge status={statusOf(run)} filled={needsPerson(run)} />
    </Changed>
  );
}

function RunLink({ run }: { run: Run }) {
  return (
    <Link to={`/runs/${encodeURIComponent(run.run)}`} title={run.run} className="flex-none hover:underline">
      <code className="font-medium">{shortId(run.run)}</code>
    </Link>
  );
}

/** Since when it waits, or is in its state. It is bold while a person has to act. */
function SinceOf({ run }: { run: Run }) {
  const waits = run.status === "waiting" ? run.waits.map((wait) => wait.since).filter((since) => since !== null) : [];
  const from = waits.sort()[0] ?? run.updated;
  return from ? <Since from={from} className={needsPerson(run) ? "font-medium" : "text-text-2"} /> : <None />;
}

/** From creation to the end; while it is not over, it counts and is grey. */
function Took({ run }: { run: Run }) {
  if (!run.created) return <None />;
  const isOver = OVER.has(run.status);
  return (
    <Since from={run.created} until={isOver ? run.updated : null} className={isOver ? "text-text-2" : "text-text-3"} />
  );
}

function Tags({ tags }: { tags: string[] }) {
  const [first, ...rest] = tags;
  if (first === undefined) return null;
  return (
    <span className="flex gap-1" title={tags.join(", ")}>
      <Tag text={first} />
      {rest.length ? <Tag text={`+${rest.length}`} /> : null}
    </span>
  );
}

function Tag({ text }: { text: string }) {
  return (
    <span className="inline-block max-w-18 truncate rounded-control border border-line bg-surface px-2 py-0.5 text-meta text-text-2">
      {text}
    </span>
  );
}

const None = () => <span className="text-text-3">–</span>;
