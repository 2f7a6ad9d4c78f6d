import { useQuery } from "@tanstack/react-query";
import {
  CircleAlert,
  CircleCheck,
  CircleDashed,
  CircleMinus,
  LayoutList,
  type LucideIcon,
  RotateCw,
} from "lucide-react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { answer, api, type View } from "@/api/client";
import { keys, useMay } from "@/api/queries";
import { count } from "@/model/durations";
import { plainName, shortId } from "@/model/names";
import { Button } from "@/ui/Button";
import { DataTable } from "@/ui/DataTable";
import { Since } from "@/ui/Duration";
import { EmptyState } from "@/ui/EmptyState";
import { LoadError } from "@/ui/LoadError";
import { Moment } from "@/ui/Moment";
import { useOnce } from "@/ui/once";
import { PageHeading } from "@/ui/PageHeading";
import { Panel } from "@/ui/Panel";
import { Skeleton } from "@/ui/Skeleton";
import { Segments } from "@/ui/Tabs";
import { toastProblem } from "@/ui/Toast";

type Outcome = View<"BulkOutcomeView">;
type Result = "done" | "skipped" | "failed";

const RESULTS: Record<Result | "open", { word: string; icon: LucideIcon; hue: string }> = {
  done: { word: "Done", icon: CircleCheck, hue: "hue-done" },
  skipped: { word: "Skipped", icon: CircleMinus, hue: "hue-idle" },
  failed: { word: "Failed", icon: CircleAlert, hue: "hue-fail" },
  open: { word: "Not reached", icon: CircleDashed, hue: "hue-idle" },
};

const LIMIT = 1000;

/** What became of a bulk action, run by run, while it is carried out and after. */
export default function BulkPage() {
  const { run = "" } = useParams();
  const [search, setSearch] = useSearchParams();
  const given = search.get("result");
  const result = given === "done" || given === "skipped" || given === "failed" ? given : null;
  const { data, error, refetch } = useQuery({
    queryKey: [...keys.run(run), "bulk", result],
    queryFn: ({ signal }) => {
      const query: { limit: number; result?: Result } = result ? { limit: LIMIT, result } : { limit: LIMIT };
      return answer(api.GET("/api/v1/bulk/{run}", { params: { path: { run }, query }, signal }));
    },
  });
  if (!data) {
    return (
      <>
        <PageHeading title="Bulk action" />
        <Panel className="mt-3">
          {error ? (
            <LoadError what="The bulk action" error={error} retry={refetch} />
          ) : (
            <Skeleton label="Loading the bulk action" />
          )}
        </Panel>
      </>
    );
  }
  const left = data.confirmed - data.done - data.skipped - data.failed;
  const isOver = ["completed", "failed", "cancelled"].includes(data.status);
  return (
    <div className="flex flex-col gap-3">
      <PageHeading
        title={`${data.action.charAt(0).toUpperCase()}${data.action.slice(1)} ${count(data.confirmed)} ${data.confirmed === 1 ? "run" : "runs"}`}
        end={isOver && data.failed + left > 0 ? <TryAgain run={run} failed={data.failed} left={left} /> : null}
      />
      <p className="text-text-2">
        {isOver ? "Carried out" : "Being carried out"} for {data.by || "somebody"}
        {data.reason ? `: ${data.reason}` : ""}. Confirmed <Moment time={data.created} />, {isOver ? "took" : "for"}{" "}
        <Since from={data.created} until={isOver ? data.updated : null} />. Its log is{" "}
        <Link to={`/runs/${encodeURIComponent(data.run)}`} className="link">
          <code>{shortId(data.run)}</code>
        </Link>
        .
      </p>
      <Segments
        label="Results"
        value={result ?? "all"}
        onChange={(value) => setSearch(value === "all" ? {} : { result: value })}
        choices={[
          { value: "all", text: `All ${count(data.confirmed)}` },
          { value: "done", text: `Done ${count(data.done)}` },
          { value: "skipped", text: `Skipped ${count(data.skipped)}` },
          { value: "failed", text: `Failed ${count(data.failed)}` },
        ]}
      />
      {left ? (
        <p role="status">
          {count(left)} of {count(data.confirmed)} are not reached yet.
        </p>
      ) : null}
      <Outcomes outcomes={data.outcomes} hasMore={data.next !== null} />
    </div>
  );
}

function Outcomes({ outcomes, hasMore }: { outcomes: Outcome[]; hasMore: boolean }) {
  const navigate = useNavigate();
  if (!outcomes.length) {
    return (
      <Panel>
        <EmptyState icon={LayoutList} title="No run has this result." />
      </Panel>
    );
  }
  return (
    <DataTable
      label="Results"
      rows={outcomes}
      rowKey={(outcome) => `${outcome.run} ${outcome.interaction}`}
      onOpen={(outcome) => navigate(`/runs/${encodeURIComponent(outcome.run)}`)}
      columns={[
        { key: "result", name: "Result", width: "132px", cell: (outcome) => <ResultWord result={outcome.result} /> },
        { key: "run", name: "Run", width: "minmax(160px, 1fr)", cell: (outcome) => <RunName outcome={outcome} /> },
        {
          key: "why",
          name: "Why",
          width: "minmax(240px, 3fr)",
          cell: (outcome) => (
            <span title={outcome.reason}>{outcome.reason || <span className="text-text-3">–</span>}</span>
          ),
        },
      ]}
      narrow={(outcome) => (
        <>
          <div className="flex justify-between gap-3">
            <RunName outcome={outcome} />
            <ResultWord result={outcome.result} />
          </div>
          {outcome.reason ? <p className="text-text-2">{outcome.reason}</p> : null}
        </>
      )}
      foot={hasMore ? `The first ${count(outcomes.length)} are shown. Choose a result to see the others.` : null}
    />
  );
}

function RunName({ outcome }: { outcome: Outcome }) {
  return (
    <>
      <Link to={`/runs/${encodeURIComponent(outcome.run)}`} title={outcome.run} className="hover:underline">
        <code className="font-medium">{shortId(outcome.run)}</code>
      </Link>
      {outcome.interaction ? <span className="ml-2 text-text-2">{plainName(outcome.interaction)}</span> : null}
    </>
  );
}

function ResultWord({ result }: { result: Outcome["result"] }) {
  const { word, icon: Icon, hue } = RESULTS[result ?? "open"];
  return (
    <span className={`inline-flex items-center gap-1.5 align-middle ${hue}`}>
      <Icon size={16} aria-hidden className="text-hue" />
      <span className={result === "failed" ? "font-medium text-hue" : "text-text-2"}>{word}</span>
    </span>
  );
}

function TryAgain({ run, failed, left }: { run: string; failed: number; left: number }) {
  const navigate = useNavigate();
  const may = useMay("runs:bulk");
  const [send, isBusy] = useOnce(async () => {
    try {
      const made = await answer(api.POST("/api/v1/bulk/{run}/retry", { params: { path: { run } } }));
      navigate(`/bulk/${encodeURIComponent(made.run)}`);
    } catch (error) {
      toastProblem("Not tried again", error);
    }
  });
  if (!may) return null;
  return (
    <Button look="primary" onClick={() => send()} busy={isBusy} busyText="Trying again…">
      <RotateCw size={14} aria-hidden /> Try the {count(failed + left)} {left ? "that are not done" : "failed"} again
    </Button>
  );
}
