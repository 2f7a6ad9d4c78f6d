import { LayoutList, Play } from "lucide-react";
import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import { Link, useNavigate, useSearchParams } from "react-router";
import { useMay } from "@/api/queries";
import { count } from "@/model/durations";
import { Button } from "@/ui/Button";
import { DataTable } from "@/ui/DataTable";
import { EmptyState } from "@/ui/EmptyState";
import { useKeys } from "@/ui/keys";
import { LoadError } from "@/ui/LoadError";
import { ZoneNote } from "@/ui/Moment";
import { PageHeading } from "@/ui/PageHeading";
import { Skeleton } from "@/ui/Skeleton";
import { BulkBar } from "./BulkBar";
import { columnsOf, NarrowRow } from "./columns";
import { useCounts, useProgress, useRuns, useUnknownWorkflows, useWorkflowNames } from "./data";
import { FilterBar } from "./FilterBar";
import { type Filter, filterOf, NOTHING, queryOf } from "./filter";
import { UnknownWorkflow } from "./UnknownWorkflow";
import { SaveView, ViewsBar } from "./ViewsBar";
import { useColumns, useViews } from "./views";

const NONE: never[] = [];

/** All runs: live, filtered by the address, each with what it waits for or why it is as it is. */
export default function RunsPage() {
  const [search, setSearch] = useSearchParams();
  const filter = useMemo(() => filterOf(search), [search]);
  const name = queryOf(filter).toString();
  const change = useCallback(
    (changed: Partial<Filter>, replace = false) =>
      setSearch((before) => queryOf({ ...filterOf(before), ...changed }), { replace, preventScrollReset: true }),
    [setSearch],
  );
  const onSort = useCallback((sort: string) => change({ sort }), [change]);
  const { unknown, isUnknown } = useUnknownWorkflows();
  const [isTouched, setTouched] = useState(false);
  const facts = useStill(unknown, isTouched);
  const list = useRuns(filter);
  const rows = list.shown?.rows ?? NONE;
  const workflows = useWorkflowNames(rows);
  const attributes = useMemo(() => [...new Set(rows.flatMap((run) => Object.keys(run.attributes)))].sort(), [rows]);
  return (
    <>
      <PageHeading
        title="Runs"
        beside={<ViewsBar query={name} onChoose={(query) => setSearch(new URLSearchParams(query))} />}
        end={
          <>
            <SaveView query={name} />
            <StartButton />
          </>
        }
      />
      <FilterBar filter={filter} onChange={change} workflows={workflows} attributes={attributes} />
      {facts.map((each) => (
        <UnknownWorkflow key={each.workflow} unknown={each} />
      ))}
      <div className="mt-3" onPointerEnter={() => setTouched(true)} onPointerLeave={() => setTouched(false)}>
        <RunTable
          key={name}
          filter={filter}
          list={list}
          isUnknown={isUnknown}
          onClear={() => setSearch(new URLSearchParams())}
          onOlder={(until) => change({ until })}
          onSort={onSort}
        />
      </div>
    </>
  );
}

/** The value as it was while something is pointed at: what stands above must not move it away. */
function useStill<T>(value: T, isTouched: boolean): T {
  const [still, setStill] = useState(value);
  if (!isTouched && still !== value) setStill(value);
  return isTouched ? still : value;
}

function StartButton() {
  return useMay("runs:start") ? (
    <Button look="primary" asChild>
      <Link to="/start">
        <Play size={14} aria-hidden /> Start a run
      </Link>
    </Button>
  ) : null;
}

interface TableProps {
  filter: Filter;
  list: ReturnType<typeof useRuns>;
  isUnknown: (workflow: string) => boolean;
  onClear: () => void;
  onOlder: (until: string) => void;
  onSort: (sort: string) => void;
}

/** The attributes shown as columns: those that were chosen, and the one that the list is sorted by. */
function useShownAttributes(sort: string): string[] {
  const chosen = useViews((kept) => kept.attributes);
  return useMemo(() => [...new Set([...chosen, ...(sort ? [sort.replace("-", "")] : [])])], [chosen, sort]);
}

function RunTable({ filter, list, isUnknown, onClear, onOlder, onSort }: TableProps) {
  const navigate = useNavigate();
  const chosen = useColumns();
  const rows = list.shown?.rows ?? NONE;
  const progress = useProgress(rows);
  const oldest = rows.at(-1)?.created ?? "";
  const attributes = useShownAttributes(filter.sort);
  const columns = useMemo(
    () => columnsOf(chosen, attributes, rows, { isUnknown, progress }, { sort: filter.sort, onSort }),
    [chosen, attributes, rows, isUnknown, progress, filter.sort, onSort],
  );
  const waiting = list.shown?.waiting ?? 0;
  const mayAct = useMay("runs:bulk");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  useKeys({ n: () => waiting && list.show() });
  useEffect(() => {
    document.title = waiting ? `(${waiting}) Runs - Outlast` : "Runs - Outlast";
  }, [waiting]);

  if (list.error && !rows.length)
    return (
      <Framed>
        <LoadError what="The runs" error={list.error} retry={list.retry} />
      </Framed>
    );
  if (!list.shown)
    return (
      <Framed>
        <Skeleton label="Loading the runs" lines={8} />
      </Framed>
    );
  if (!rows.length)
    return (
      <Framed>
        <NoRuns filter={filter} onClear={onClear} />
      </Framed>
    );
  const number = `${count(rows.length)} ${rows.length === 1 ? "run" : "runs"}`;
  const order = filter.sort
    ? `sorted by ${filter.sort.replace("-", "")}${filter.sort.startsWith("-") ? ", the greatest first" : ""}`
    : "newest first";
  const all = list.hasMore ? `The first ${number} that match are shown, ${order}.` : `${number}, ${order}.`;
  return (
    <div className={list.isOther || list.error ? "opacity-55" : ""} aria-busy={list.isOther || undefined}>
      {list.error ? (
        <Framed>
          <LoadError what="The runs" error={list.error} retry={list.retry} />
        </Framed>
      ) : null}
      <DataTable
        label="Runs"
        columns={columns}
        rows={rows}
        rowKey={(run) => run.run}
        narrow={(run) => <NarrowRow run={run} isUnknown={isUnknown} progress={progress} />}
        onOpen={(run) => navigate(`/runs/${encodeURIComponent(run.run)}`)}
        {...(mayAct ? { selection: { selected, onChange: setSelected } } : {})}
        isStale={(run) => list.shown?.gone.has(run.run) ?? false}
        banner={<NewRuns waiting={waiting} all={all} onShow={list.show} />}
        foot={
          <>
            {list.hasMore && list.more ? (
              <Button small onClick={list.more} busy={list.isLoadingMore} busyText="Loading…">
                Show more
              </Button>
            ) : null}
            {list.hasMore && !list.more && oldest && !filter.sort ? (
              <Button small onClick={() => onOlder(oldest)}>
                Show older ones
              </Button>
            ) : null}
            <span className="ml-auto">
              <ZoneNote />
            </span>
          </>
        }
      />
      <BulkBar selected={selected} filter={filter} onClear={() => setSelected(new Set())} />
    </div>
  );
}

function Framed({ children }: { children: ReactNode }) {
  return <div className="rounded-panel border border-line bg-surface">{children}</div>;
}

/**
 * What is new is said, and comes in by a press. The line is always there, so that nothing moves when there is something to
 * say.
 */
function NewRuns({ waiting, all, onShow }: { waiting: number; all: string; onShow: () => void }) {
  return (
    <div role="status">
      {waiting ? (
        <p className="rounded-t-panel border-b border-line bg-run-tint px-4 py-1 text-center text-run max-md:px-3.5 max-md:py-2.5 max-md:pr-12 max-md:text-left">
          {waiting === 1 ? "1 new run matches this filter." : `${count(waiting)} new runs match this filter.`}{" "}
          <button type="button" onClick={onShow} className="link">
            Show {waiting === 1 ? "it" : "them"}
          </button>
        </p>
      ) : (
        <p className="border-b border-line px-4 py-1 text-center text-text-3 max-md:px-3.5 max-md:py-2.5 max-md:pr-12 max-md:text-left">
          {all}
        </p>
      )}
    </div>
  );
}

function NoRuns({ filter, onClear }: { filter: Filter; onClear: () => void }) {
  const isFiltered = queryOf(filter).toString() !== "";
  const [all] = useCounts([{ query: queryOf({ ...NOTHING, children: true }).toString() }]);
  if (!isFiltered && all?.count === 0) {
    return (
      <EmptyState icon={LayoutList} title="There are no runs yet." action={<StartButton />}>
        Start one here, or with <code>outlast run</code>.
      </EmptyState>
    );
  }
  return (
    <EmptyState
      icon={LayoutList}
      title="No run matches this filter."
      action={<Button onClick={onClear}>Clear the filter</Button>}
    >
      {all
        ? `${count(all.count)}${all.more ? " or more" : ""} ${all.count === 1 ? "run is" : "runs are"} hidden by it.`
        : null}
    </EmptyState>
  );
}
