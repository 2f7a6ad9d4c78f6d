import { useQuery } from "@tanstack/react-query";
import { ChevronRight, Play } from "lucide-react";
import { Suspense } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { answer, api, type View } from "@/api/client";
import { lazyPart } from "@/api/parts";
import { keys, useMay } from "@/api/queries";
import { count, duration } from "@/model/durations";
import { formOf, noteOf } from "@/model/schema-form";
import { oneLine } from "@/model/values";
import { Button } from "@/ui/Button";
import { LoadError } from "@/ui/LoadError";
import { Moment, ZoneNote } from "@/ui/Moment";
import { PageHeading } from "@/ui/PageHeading";
import { Panel } from "@/ui/Panel";
import { Skeleton } from "@/ui/Skeleton";
import { CELL, Table } from "@/ui/Table";
import { Segments } from "@/ui/Tabs";
import { SPANS, useKnowing, useStatistics } from "./data";
import { Knowing } from "./Knowing";
import { Versions } from "./Versions";
import { Went } from "./WorkflowsPage";

const Chart = lazyPart(() => import("./Chart"));

/** One workflow: how it went over time, its parameters and its versions. */
export default function WorkflowPage() {
  const { workflow: name = "" } = useParams();
  const mayStart = useMay("runs:start");
  const knowing = useKnowing(name);
  const found = useQuery({
    queryKey: [...keys.workflows, name],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/workflows/{workflow}", { params: { path: { workflow: name } }, signal })),
  });
  const workflow = found.data;
  return (
    <>
      <Crumb name={name} />
      <PageHeading
        title={name}
        end={
          mayStart && workflow ? (
            <Button look="primary" asChild>
              <Link to={`/start/${encodeURIComponent(name)}`}>
                <Play size={16} aria-hidden /> Start a run
              </Link>
            </Button>
          ) : null
        }
      />
      <p className="flex flex-wrap gap-x-4 gap-y-1 text-text-2">
        {workflow ? <code>{workflow.entry}</code> : null}
        <Knowing workers={knowing} />
        <Link to={`/?workflow=${encodeURIComponent(name)}`} className="link">
          Its runs
        </Link>
      </p>
      {workflow?.doc ? <p className="mt-2 max-w-190 whitespace-pre-line">{workflow.doc}</p> : null}
      <History name={name} />
      {workflow ? (
        <Parameters workflow={workflow} />
      ) : found.error ? (
        <LoadError what="The workflow" error={found.error} retry={() => void found.refetch()} />
      ) : (
        <Skeleton />
      )}
      <Versions name={name} current={workflow?.version} />
      <p className="mt-3 text-meta text-text-3">
        <ZoneNote />
      </p>
    </>
  );
}

export function Crumb({ name }: { name: string }) {
  return (
    <p className="flex items-center gap-1.5 text-meta text-text-2">
      <Link to="/workflows" className="link">
        Workflows
      </Link>
      <ChevronRight size={12} aria-hidden />
      <Link to={`/workflows/${encodeURIComponent(name)}`} className="min-w-0 truncate">
        {name}
      </Link>
    </p>
  );
}

function History({ name }: { name: string }) {
  const [params, setParams] = useSearchParams();
  const span = SPANS.find((each) => each.value === params.get("days")) ?? SPANS[1];
  const found = useStatistics(name, Number(span.value));
  const statistics = found.data;
  return (
    <Panel
      className="mt-4"
      title="How it went"
      note="by when a run was created"
      end={
        <Segments
          label="How long back"
          value={span.value}
          onChange={(days) => setParams(days === "7" ? {} : { days }, { replace: true })}
          choices={[...SPANS]}
        />
      }
    >
      {!statistics ? (
        found.error ? (
          <LoadError what="The statistics" error={found.error} retry={() => void found.refetch()} />
        ) : (
          <Skeleton />
        )
      ) : (
        <>
          <dl className="flex flex-wrap gap-x-8 gap-y-2 px-4 py-3">
            <Fact name="Runs">
              <Went statistics={statistics} />
            </Fact>
            <Fact name="Success">
              <Success statistics={statistics} />
            </Fact>
            {statistics.duration_ms ? (
              <Fact name="Took">
                median {duration(statistics.duration_ms.p50)}, p90 {duration(statistics.duration_ms.p90)}, p99{" "}
                {duration(statistics.duration_ms.p99)}; the longest {duration(statistics.duration_ms.longest)}
              </Fact>
            ) : null}
          </dl>
          {statistics.runs ? (
            <Suspense fallback={<div className="h-96" />}>
              <Chart statistics={statistics} />
            </Suspense>
          ) : null}
          {statistics.is_complete ? null : (
            <p className="px-4 pb-3 text-meta text-text-2">
              The newest {count(statistics.runs)} runs are counted, since <Moment time={statistics.since} />.
            </p>
          )}
        </>
      )}
    </Panel>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt className="text-meta text-text-2">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Success({ statistics: { completed, failed } }: { statistics: View<"StatisticsView"> }) {
  const ended = completed + failed;
  if (!ended) return <>–</>;
  const share = (100 * completed) / ended;
  const text = share > 99.9 && share < 100 ? ">99.9" : Number(share.toFixed(1));
  return (
    <>
      {text} %, {count(completed)} of {count(ended)} that completed or failed
    </>
  );
}

function Parameters({ workflow }: { workflow: View<"WorkflowView"> }) {
  return (
    <Panel className="mt-4" title="Parameters" note={workflow.parameters.length ? undefined : "none"}>
      {workflow.parameters.length ? (
        <Table label="Parameters" columns={["Name", "Type", "Given"]}>
          {workflow.parameters.map((parameter) => (
            <tr key={parameter.name}>
              <td className={CELL}>
                <code>{parameter.name}</code>
              </td>
              <td className={CELL} data-label="Type">
                {noteOf(formOf(parameter.schema)) || "object"}
              </td>
              <td className={`${CELL} text-text-2`}>
                {parameter.required ? "always" : <Default parameter={parameter} />}
              </td>
            </tr>
          ))}
        </Table>
      ) : null}
    </Panel>
  );
}

function Default({ parameter }: { parameter: View<"ParameterView"> }) {
  return "default" in parameter ? (
    <>
      optional, else <code>{oneLine(parameter.default, 60).text}</code>
    </>
  ) : (
    <>optional</>
  );
}
