import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Ban, Check, CircleAlert, CircleDashed, Info, RotateCw, SkipForward } from "lucide-react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { answer, api, type View } from "@/api/client";
import { keys, useMay } from "@/api/queries";
import { count, counted } from "@/model/durations";
import { shortId } from "@/model/names";
import { Button } from "@/ui/Button";
import { CopyId } from "@/ui/CopyId";
import { Since } from "@/ui/Duration";
import { EmptyState } from "@/ui/EmptyState";
import { LoadError } from "@/ui/LoadError";
import { Moment } from "@/ui/Moment";
import { Notice } from "@/ui/Notice";
import { useOnce } from "@/ui/once";
import { PageHeading } from "@/ui/PageHeading";
import { Skeleton } from "@/ui/Skeleton";
import { StatusBadge } from "@/ui/StatusBadge";
import { CELL, Table } from "@/ui/Table";
import { Segments } from "@/ui/Tabs";
import { toastProblem } from "@/ui/Toast";

type Result = "done" | "skipped" | "failed";
const LOOKS = {
  done: { icon: Check, hue: "text-done", word: "Done" },
  skipped: { icon: SkipForward, hue: "text-text-2", word: "Skipped" },
  failed: { icon: CircleAlert, hue: "text-fail", word: "Failed" },
  left: { icon: CircleDashed, hue: "text-text-2", word: "Not reached" },
};
const PAST: Record<string, string> = {
  cancel: "cancelled",
  pause: "paused",
  resume: "resumed",
  retry: "retried",
  approve: "approved",
  reject: "rejected",
  answer: "answered",
};

/** A bulk action: its progress, and what became of each run. */
export default function BulkPage() {
  const { run = "" } = useParams();
  const found = useQuery({
    queryKey: [...keys.run(run), "bulk"],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/bulk/{run}", { params: { path: { run }, query: { limit: 1 } }, signal })),
  });
  const bulk = found.data;
  if (!bulk)
    return (
      <>
        <PageHeading title="Bulk action" />
        {found.error ? (
          <LoadError what="The bulk action" error={found.error} retry={() => void found.refetch()} />
        ) : (
          <Skeleton />
        )}
      </>
    );
  const verb = bulk.action[0]?.toUpperCase() + bulk.action.slice(1);
  return (
    <>
      <PageHeading title={`${verb} ${counted(bulk.confirmed, "run")}`} end={<Again bulk={bulk} />} />
      <p className="flex flex-wrap items-center gap-x-4 gap-y-1 text-text-2">
        <Link to={`/runs/${bulk.run}`} className="link">
          The run that does it
        </Link>
        <CopyId id={bulk.run} />
        <span>
          Confirmed by {bulk.by || "somebody"} at <Moment time={bulk.created} />
        </span>
        {bulk.reason ? <span>Reason: {bulk.reason}</span> : null}
      </p>
      <Progress bulk={bulk} />
      <Outcomes bulk={bulk} />
    </>
  );
}

const left = (bulk: View<"BulkView">): number => bulk.confirmed - bulk.done - bulk.skipped - bulk.failed;
const isGoing = (bulk: View<"BulkView">): boolean => !["completed", "failed", "cancelled"].includes(bulk.status);

function Progress({ bulk }: { bulk: View<"BulkView"> }) {
  const parts = [
    { name: PAST[bulk.action] ?? "done", count: bulk.done, bar: "bg-done-bar" },
    { name: "skipped", count: bulk.skipped, bar: "bg-idle-bar" },
    { name: "failed", count: bulk.failed, bar: "bg-fail-bar" },
    { name: isGoing(bulk) ? "to do" : "not reached", count: left(bulk), bar: "bg-transparent" },
  ];
  return (
    <section aria-label="Progress" className="mt-4 rounded-panel border border-line bg-surface px-4 py-3">
      <div className="flex flex-wrap items-center gap-x-6 gap-y-2">
        <StatusBadge status={bulk.status} />
        {parts.map((part) => (
          <span key={part.name} className={part.count ? "" : "text-text-3"}>
            <b>{count(part.count)}</b> {part.name}
          </span>
        ))}
        {isGoing(bulk) ? (
          <span className="ml-auto text-text-2">
            under way for <Since from={bulk.created} />
          </span>
        ) : null}
      </div>
      <div
        role="progressbar"
        aria-label="Runs that were reached"
        aria-valuemin={0}
        aria-valuemax={bulk.confirmed}
        aria-valuenow={bulk.confirmed - left(bulk)}
        className="mt-3 flex h-2 overflow-hidden rounded-control bg-sunken"
      >
        {parts.map((part) => (
          <span
            key={part.name}
            className={part.bar}
            style={{ width: `${(100 * part.count) / Math.max(1, bulk.confirmed)}%` }}
          />
        ))}
      </div>
      {bulk.status === "cancelled" || bulk.status === "failed" ? (
        <Notice hue="idle" icon={Ban} className="mt-3">
          The bulk action ended before it reached {counted(left(bulk), "run")}. They are as they were.
        </Notice>
      ) : null}
      {bulk.status === "paused" ? (
        <Notice hue="idle" icon={Info} className="mt-3">
          The bulk action is paused: it continues when its run is resumed.
        </Notice>
      ) : null}
    </section>
  );
}

/** Try those again that failed or were not reached. */
function Again({ bulk }: { bulk: View<"BulkView"> }) {
  const navigate = useNavigate();
  const may = useMay("runs:bulk");
  const [again, isBusy] = useOnce(async () => {
    try {
      const made = await answer(api.POST("/api/v1/bulk/{run}/retry", { params: { path: { run: bulk.run } } }));
      navigate(`/bulk/${made.run}`);
    } catch (error) {
      toastProblem("Not tried again", error);
    }
  });
  const unfinished = bulk.failed + left(bulk);
  if (!may || isGoing(bulk) || !unfinished) return null;
  return (
    <Button look="primary" busy={isBusy} busyText="Trying again…" onClick={() => again()}>
      <RotateCw size={16} aria-hidden />
      {left(bulk) ? `Try the ${count(unfinished)} again` : `Try the ${count(unfinished)} failed again`}
    </Button>
  );
}

function Outcomes({ bulk }: { bulk: View<"BulkView"> }) {
  const [params, setParams] = useSearchParams();
  const shown = params.get("show");
  const result = isResult(shown) ? shown : undefined;
  const found = useInfiniteQuery({
    queryKey: [...keys.run(bulk.run), "outcomes", result ?? "", bulk.confirmed - left(bulk)],
    queryFn: ({ pageParam, signal }) => {
      const query = { limit: 100, cursor: pageParam, ...(result ? { result } : {}) };
      return answer(api.GET("/api/v1/bulk/{run}", { params: { path: { run: bulk.run }, query }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    placeholderData: (before) => before,
  });
  const outcomes = found.data?.pages.flatMap((page) => page.outcomes) ?? [];
  const choices = [
    { value: "all", text: `All ${count(bulk.confirmed)}` },
    { value: "failed", text: `Failed ${count(bulk.failed)}` },
    { value: "skipped", text: `Skipped ${count(bulk.skipped)}` },
    { value: "done", text: `Done ${count(bulk.done)}` },
  ];
  return (
    <>
      <div className="mt-4 mb-3">
        <Segments
          label="Which runs"
          value={result ?? "all"}
          onChange={(value) => setParams(value === "all" ? {} : { show: value }, { replace: true })}
          choices={choices}
        />
      </div>
      <section className="overflow-hidden rounded-panel border border-line bg-surface">
        {!found.data ? (
          found.error ? (
            <LoadError what="The results" error={found.error} retry={() => void found.refetch()} />
          ) : (
            <Skeleton />
          )
        ) : outcomes.length ? (
          <Table label="Results" columns={["Result", "Run", "Why"]}>
            {outcomes.map((each) => (
              <Row key={`${each.run} ${each.interaction}`} outcome={each} />
            ))}
          </Table>
        ) : (
          <EmptyState icon={Info} title="No run has this result." />
        )}
        {found.hasNextPage ? (
          <div className="border-t border-line px-4 py-2.5">
            <Button busy={found.isFetchingNextPage} busyText="Loading…" onClick={() => void found.fetchNextPage()}>
              Show more
            </Button>
          </div>
        ) : null}
      </section>
    </>
  );
}

const isResult = (text: string | null): text is Result => text === "done" || text === "skipped" || text === "failed";

function Row({ outcome }: { outcome: View<"BulkOutcomeView"> }) {
  const { icon: Icon, hue, word } = LOOKS[outcome.result ?? "left"];
  return (
    <tr>
      <td className={`${CELL} w-36`}>
        <span className={`inline-flex items-center gap-1.5 font-medium ${hue}`}>
          <Icon size={16} aria-hidden /> {word}
        </span>
      </td>
      <td className={`${CELL} w-64`}>
        <Link to={`/runs/${outcome.run}`} className="link" title={outcome.run}>
          <code>{shortId(outcome.run)}</code>
        </Link>
        {outcome.interaction ? <span className="text-text-2"> {outcome.interaction}</span> : null}
      </td>
      <td className={`${CELL} text-text-2`}>{outcome.reason}</td>
    </tr>
  );
}
