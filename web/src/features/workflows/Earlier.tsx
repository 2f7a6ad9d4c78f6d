import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { answer, api, type View } from "@/api/client";
import type { Json } from "@/api/json";
import { keys } from "@/api/queries";
import { shortId } from "@/model/names";
import { oneLine } from "@/model/values";
import { Button } from "@/ui/Button";
import { Panel } from "@/ui/Panel";
import { StatusBadge, statusOf } from "@/ui/StatusBadge";

const SHOWN = 3;

/** The inputs of the last runs, to be used again. */
export function Earlier({ workflow, onUse }: { workflow: string; onUse: (params: Json) => void }) {
  const runs = useQuery({
    queryKey: [...keys.runs, "earlier", workflow],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs", { params: { query: { workflow, limit: SHOWN } }, signal })),
  }).data?.runs;
  const details = useQueries({
    queries: (runs ?? []).map(({ run }) => ({
      queryKey: keys.run(run),
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        answer(api.GET("/api/v1/runs/{run}", { params: { path: { run } }, signal })),
    })),
  });
  if (!runs?.length) return null;
  return (
    <Panel title="Earlier inputs">
      <ul>{details.map(({ data }) => (data ? <Input key={data.run} run={data} onUse={onUse} /> : null))}</ul>
    </Panel>
  );
}

function Input({ run, onUse }: { run: View<"RunDetailView">; onUse: (params: Json) => void }) {
  return (
    <li className="flex items-center gap-3 border-b border-line px-4 py-2.5 last:border-0">
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-x-3">
          <Link to={`/runs/${run.run}`} className="link" title={run.run}>
            <code>{shortId(run.run)}</code>
          </Link>
          <StatusBadge status={statusOf(run)} />
        </p>
        {run.title ? <p className="truncate text-text-2">{run.title}</p> : null}
        <code className="line-clamp-3 break-words text-text-2">{oneLine(run.params, 200).text}</code>
      </div>
      <Button small onClick={() => onUse(run.params as Json)}>
        Use
      </Button>
    </li>
  );
}
