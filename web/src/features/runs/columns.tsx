import { ArrowDown } from "lucide-react";
import { Link } from "react-router";
import type { View } from "@/api/client";
import { now } from "@/api/clock";
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

/** `oldest` is the earliest moment of creation among the rows. */
export function columnsOf(shown: readonly ColumnKey[], beside: Beside, oldest: string): Column<Run>[] {
  const all: Record<ColumnKey, Omit<Column<Run>, "key" | "name">> = {
    status: { width: "132px", cell: (run) => <Badge run={run} /> },
    run: {
      width: "minmax(190px, 1.1fr)",
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
      width: "112px",
      cell: (run) => (
        <span title={run.workflow} className="text-text-2">
          {run.workflow}
        </span>
      ),
    },
    why: { width: "minmax(200px, 1.35fr)", cell: (run) => <WhyOf run={run} {...beside} /> },
    since: { width: "100px", right: true, cell: (run) => <SinceOf run={run} /> },
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
  return shown.map((key) => ({ key, name: heading(key), ...all[key] }));
}

function heading(key: ColumnKey) {
  if (key !== "created") return COLUMN_NAMES[key];
  return (
    <span className="inline-flex items-center gap-1 align-bottom font-semibold text-text" title="Newest first">
      <ArrowDown size={12} aria-hidden />
      {COLUMN_NAMES[key]}
    </span>
  );
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
