import { useQuery } from "@tanstack/react-query";
import { ArrowDown, ArrowLeftRight, ArrowRight, ChevronRight, GitBranch, GitCompare } from "lucide-react";
import { Fragment, useMemo, useState } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { answer, api, type View } from "@/api/client";
import { keys, useMay } from "@/api/queries";
import { type Cell, type CompareRow, compareRows, endingOf, firstCause, type Verdict } from "@/model/compare";
import { count, counted } from "@/model/durations";
import { shortId } from "@/model/names";
import { oneLine } from "@/model/values";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { LoadError } from "@/ui/LoadError";
import { Moment } from "@/ui/Moment";
import { useIsWide } from "@/ui/media";
import { Notice } from "@/ui/Notice";
import { usePageTitle } from "@/ui/PageHeading";
import { Skeleton } from "@/ui/Skeleton";
import { StatusBadge, statusOf } from "@/ui/StatusBadge";
import { Segments } from "@/ui/Tabs";
import { ActionDialogs } from "../actions/ActionDialogs";
import { useActions } from "../actions/store";
import { addressOf, type RunDetail, useRunDetail } from "./context";
import { RunNotLoaded } from "./RunNotLoaded";

type Branch = View<"BranchView">;
type Comparison = View<"ComparisonView">;

const numberOf = (text: string | null): number | null => (text && /^\d{1,9}$/.test(text) ? Number(text) : null);
const PAGE = 300;

/** Two branches of a run: their results, where they part, and what differs from there on. */
export default function ComparePage() {
  const { run = "" } = useParams();
  const [search] = useSearchParams();
  const { data: detail, error, refetch } = useRunDetail(run);
  const right = numberOf(search.get("right")) ?? detail?.branch ?? 0;
  const left = numberOf(search.get("left")) ?? Math.max(0, right - 1);
  usePageTitle(`Compare branch ${left} with branch ${right}`);
  if (!detail) return <RunNotLoaded run={run} error={error} retry={() => void refetch()} />;
  return (
    <>
      <Heading detail={detail} left={left} right={right} />
      <Loaded key={`${left} ${right}`} detail={detail} left={left} right={right} />
      <ActionDialogs detail={detail} />
    </>
  );
}

const address = (run: string, left: number, right: number) =>
  `/runs/${encodeURIComponent(run)}/compare?left=${left}&right=${right}`;

function Heading({ detail, left, right }: { detail: RunDetail; left: number; right: number }) {
  const { run } = detail;
  const mayActivate = useMay("runs:activate") && detail.actions.some((action) => action.action === "activate");
  const older = left === detail.branch ? right : left;
  return (
    <header>
      <nav aria-label="Where this is" className="flex flex-wrap items-center gap-1.5 text-meta text-text-2">
        <Link to="/" className="hover:underline">
          Runs
        </Link>
        <ChevronRight size={14} aria-hidden />
        <Link to={`/?workflow=${encodeURIComponent(detail.workflow)}`} className="hover:underline">
          {detail.workflow}
        </Link>
        <ChevronRight size={14} aria-hidden />
        <Link to={addressOf(run, {})} className="hover:underline">
          {shortId(run)}
        </Link>
        <ChevronRight size={14} aria-hidden />
        <Link to={addressOf(run, { tab: "branches" })} className="hover:underline">
          Branches
        </Link>
      </nav>
      <div className="mt-1 mb-3 flex flex-wrap items-end gap-3">
        <div className="min-w-0">
          <h1 className="text-title font-semibold">
            Compare branch {left} with branch {right}
          </h1>
          <p className="flex flex-wrap items-center gap-x-4 text-meta text-text-2">
            <span className="min-w-0 break-words">{detail.title || run}</span>
            <StatusBadge status={statusOf(detail)} />
            <span>
              created <Moment time={detail.created} />
            </span>
          </p>
        </div>
        <div className="ml-auto flex flex-wrap gap-2 max-md:ml-0">
          <Button look="soft" asChild>
            <Link to={address(run, right, left)} replace>
              <ArrowLeftRight size={16} aria-hidden /> Swap sides
            </Link>
          </Button>
          {mayActivate && older !== detail.branch ? (
            <Button onClick={() => useActions.getState().ask({ kind: "activate", run, branch: older })}>
              <GitBranch size={16} aria-hidden /> Go on from branch {older}…
            </Button>
          ) : null}
        </div>
      </div>
    </header>
  );
}

function Loaded({ detail, left, right }: { detail: RunDetail; left: number; right: number }) {
  const { run } = detail;
  const path = { run };
  const branches = useQuery({
    queryKey: [...keys.run(run), "branches"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/branches", { params: { path }, signal })),
  });
  const { data, error, refetch } = useQuery({
    queryKey: [...keys.run(run), "compare", left, right],
    queryFn: ({ signal }) =>
      answer(
        api.GET("/api/v1/runs/{run}/compare", {
          params: { path, query: { branch: left, other_branch: right } },
          signal,
        }),
      ),
  });
  if (error && !data) return <LoadError what="The comparison" error={error} retry={() => void refetch()} />;
  if (!data) return <Skeleton lines={10} />;
  const find = (id: number) => branches.data?.branches.find((branch) => branch.branch === id);
  return <Compared comparison={data} left={find(left)} right={find(right)} run={run} />;
}

function Compared({
  comparison,
  left,
  right,
  run,
}: {
  comparison: Comparison;
  left: Branch | undefined;
  right: Branch | undefined;
  run: string;
}) {
  const rows = useMemo(() => compareRows(comparison), [comparison]);
  const counts = comparison.counts as Record<Verdict, number>;
  const [hidden, setHidden] = useState<ReadonlySet<Verdict>>(new Set(["same"]));
  const [form, setForm] = useState<"side" | "column">("side");
  const [shownRows, setShownRows] = useState(PAGE);
  const isWide = useIsWide(700);
  const isSide = isWide && form === "side";
  const visible = rows.filter((row) => !hidden.has(row.verdict));
  const names = { left: `Branch ${comparison.left.branch}`, right: `Branch ${comparison.right.branch}` };
  const toggle = (verdict: Verdict) =>
    setHidden((before) => {
      const after = new Set(before);
      if (!after.delete(verdict)) after.add(verdict);
      return after;
    });
  const chips: [Verdict, string][] = [
    ["differs", `${count(counts.differs)} ${counts.differs === 1 ? "differs" : "differ"}`],
    ["left", `${count(counts.left)} only on branch ${comparison.left.branch}`],
    ["right", `${count(counts.right)} only on branch ${comparison.right.branch}`],
    ["same", `${count(counts.same)} the same`],
  ];
  return (
    <>
      <section
        aria-label="Results"
        className="grid items-center gap-x-4 gap-y-3 rounded-panel border border-line bg-surface px-4 py-3 md:grid-cols-[minmax(0,1fr)_auto_minmax(0,1fr)]"
      >
        <Result comparison={comparison} side="left" branch={left} />
        {isWide ? (
          <ArrowRight size={16} aria-hidden className="text-text-2" />
        ) : (
          <ArrowDown size={16} aria-hidden className="justify-self-center text-text-2" />
        )}
        <Result comparison={comparison} side="right" branch={right} />
      </section>
      <div className="my-3 flex flex-wrap items-center gap-2">
        <Parting comparison={comparison} right={right} />
        <fieldset
          aria-label="Rows that are shown"
          className="ml-auto inline-flex flex-wrap rounded-control border border-line bg-surface p-px max-md:ml-0"
        >
          {chips
            .filter(([verdict]) => counts[verdict])
            .map(([verdict, text]) => (
              <button
                key={verdict}
                type="button"
                aria-pressed={!hidden.has(verdict)}
                onClick={() => toggle(verdict)}
                className="rounded-[3px] px-2.25 py-0.75 text-meta whitespace-nowrap text-text-2 hover:text-text aria-pressed:bg-selected aria-pressed:font-semibold aria-pressed:text-text max-md:min-h-9"
              >
                {text}
                {hidden.has(verdict) ? ", hidden" : ""}
              </button>
            ))}
        </fieldset>
        {isWide ? (
          <Segments
            label="Form"
            value={form}
            onChange={setForm}
            choices={[
              { value: "side", text: "Side by side" },
              { value: "column", text: "One column" },
            ]}
          />
        ) : null}
      </div>
      <section aria-label="Events" className="overflow-hidden rounded-panel border border-line bg-surface">
        {isSide ? (
          <div className="grid grid-cols-[minmax(0,1fr)_36px_minmax(0,1fr)] border-b border-line text-meta font-medium">
            <span className="py-2 pl-12">{names.left}</span>
            <span />
            <span className="py-2 pl-12">{names.right}</span>
          </div>
        ) : null}
        {comparison.shared ? (
          <Link
            to={addressOf(run, { tab: "events", branch: comparison.left.branch })}
            className="flex items-center gap-2 border-b border-line bg-canvas px-4 py-2 text-text-2 hover:bg-hover"
          >
            <ChevronRight size={14} aria-hidden />
            {counted(comparison.shared, "event")} {comparison.shared === 1 ? "is" : "are"} shared
            {right?.parent === comparison.left.branch && right.cutoff ? `, up to event ${right.cutoff}` : ""}
          </Link>
        ) : null}
        {visible.length ? null : (
          <EmptyState icon={GitCompare} title={comparison.same ? "Nothing differs." : "All rows are hidden."}>
            {comparison.same ? "Both branches have the same events." : "Press a count above to show its rows."}
          </EmptyState>
        )}
        {visible.slice(0, shownRows).map((row) => (
          <RowView key={`${row.left?.first} ${row.right?.first}`} row={row} isSide={isSide} names={names} />
        ))}
        {visible.length > shownRows ? (
          <p className="flex items-center gap-3 px-4 py-2 text-text-2">
            {count(shownRows)} of {counted(visible.length, "row")} are shown.
            <Button small onClick={() => setShownRows(shownRows + PAGE)}>
              Show {Math.min(PAGE, visible.length - shownRows)} more
            </Button>
          </p>
        ) : null}
      </section>
    </>
  );
}

function Result({
  comparison,
  side,
  branch,
}: {
  comparison: Comparison;
  side: "left" | "right";
  branch: Branch | undefined;
}) {
  const ending = endingOf(comparison, side);
  return (
    <div className="min-w-0">
      <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-meta text-text-2">
        <span className="rounded-control border border-line px-2 py-0.5 text-text">
          Branch {comparison[side].branch}
          {branch?.current ? ", current" : ""}
        </span>
        <span>
          {counted(comparison[side].events, "event")}
          {branch ? (
            <>
              , {branch.parent === null ? "started" : "opened"} <Moment time={branch.opened} />
              {branch.by ? ` by ${branch.by}` : ""}, {branch.held ? "held" : branch.status}{" "}
              <Moment time={branch.last_event} />
            </>
          ) : null}
        </span>
      </p>
      <p className={`mt-1.5 text-read break-words ${ending.hasResult ? "" : "text-text-2"}`}>{ending.text}</p>
    </div>
  );
}

/** Where the branches part, and what was the first thing that differed. */
function Parting({ comparison, right }: { comparison: Comparison; right: Branch | undefined }) {
  const cause = useMemo(() => firstCause(comparison), [comparison]);
  const isChild = right?.parent === comparison.left.branch;
  return (
    <Notice hue="undo" icon={GitBranch}>
      {isChild && right ? `They part ${right.cutoff ? `after event ${right.cutoff}` : "at the start"}. ` : ""}
      {cause ? (
        <>
          <b>The first cause:</b> {cause.node} {cause.what}{" "}
          {cause.value === undefined ? null : (
            <code className="rounded-control bg-code px-1.5 py-0.5 break-all">{oneLine(cause.value, 200).text}</code>
          )}
          .
        </>
      ) : comparison.same ? (
        "Nothing differs."
      ) : (
        "No input or result shows why."
      )}
    </Notice>
  );
}

const MARKS: Record<Verdict, [sign: string, name: string]> = {
  differs: ["≠", "differs"],
  same: ["=", "the same"],
  left: ["−", "only on the left"],
  right: ["+", "only on the right"],
};

function RowView({
  row,
  isSide,
  names,
}: {
  row: CompareRow;
  isSide: boolean;
  names: Record<"left" | "right", string>;
}) {
  const [sign, name] = MARKS[row.verdict];
  if (!isSide)
    return (
      <div className="border-line py-2 not-first:border-t">
        {row.left ? <CellView cell={row.left} label={names.left} isNew={false} /> : null}
        {row.right && row.verdict !== "same" ? (
          <CellView cell={row.right} label={row.left ? "" : names.right} isNew />
        ) : null}
      </div>
    );
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_36px_minmax(0,1fr)] border-line not-first:border-t">
      <div className={`py-2 ${row.left ? "" : "bg-canvas"}`}>
        {row.left ? <CellView cell={row.left} isNew={false} /> : null}
      </div>
      <div title={name} className="border-x border-line bg-canvas py-2 text-center font-mono text-code text-undo">
        <span aria-hidden>{sign}</span>
        <span className="sr-only">{name}</span>
      </div>
      <div className={`py-2 ${row.right ? "" : "bg-canvas"}`}>
        {row.right ? <CellView cell={row.right} isNew /> : null}
      </div>
    </div>
  );
}

function CellView({ cell, label = "", isNew }: { cell: Cell; label?: string; isNew: boolean }) {
  return (
    <div className="grid grid-cols-[48px_minmax(0,1fr)] gap-x-2 px-3">
      <span className="text-right font-mono text-code text-text-2">
        {cell.first === cell.last ? cell.first : `${cell.first}–${cell.last}`}
      </span>
      <div className="min-w-0">
        <p className="break-words">
          {cell.name ? <b className="font-medium">{cell.name}</b> : null}{" "}
          {cell.name ? cell.what : <span className="font-medium">{cell.what}</span>}{" "}
          {cell.attempt > 1 ? <span className="text-text-2">attempt {cell.attempt}</span> : null}
          {cell.by ? <span className="text-text-2"> by {cell.by}</span> : null}
          {label ? <span className="sr-only">, {label}</span> : null}
        </p>
        {cell.note ? <p className="text-meta break-words">{cell.note}</p> : null}
        {cell.values.length ? (
          <dl className="mt-0.5 grid grid-cols-[fit-content(40%)_minmax(0,1fr)] gap-x-4 gap-y-1 max-md:grid-cols-1 max-md:gap-y-0">
            {cell.values.slice(0, 20).map(({ path, value }) => (
              <Fragment key={path}>
                <dt className="min-w-22 truncate font-mono text-code text-text-2" title={path}>
                  {path}
                </dt>
                <dd className="min-w-0">
                  <code
                    className={`box-decoration-clone rounded-control px-1.5 py-0.5 break-words ${isNew ? "bg-undo-tint" : "bg-sunken"}`}
                  >
                    {oneLine(value, 600).text}
                  </code>
                </dd>
              </Fragment>
            ))}
          </dl>
        ) : null}
        {cell.values.length > 20 ? <p className="text-meta text-text-2">and {cell.values.length - 20} more</p> : null}
      </div>
    </div>
  );
}
