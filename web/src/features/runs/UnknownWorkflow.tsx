import { useQuery } from "@tanstack/react-query";
import { Terminal, Unplug } from "lucide-react";
import { useState } from "react";
import { Link } from "react-router";
import { answer, api } from "@/api/client";
import { keys, useWorkers } from "@/api/queries";
import { count } from "@/model/durations";
import { shortId } from "@/model/names";
import { Button } from "@/ui/Button";
import { CopyId } from "@/ui/CopyId";
import { Dialog } from "@/ui/Dialog";
import { Since } from "@/ui/Duration";
import { Moment } from "@/ui/Moment";
import { Notice } from "@/ui/Notice";
import type { Unknown } from "./data";
import { NOTHING, queryOf } from "./filter";

/** The fact that nobody works on a workflow, since when, and the command that changes it. */
export function UnknownWorkflow({ unknown: { workflow, runs } }: { unknown: Unknown }) {
  const [isOpen, setOpen] = useState(false);
  const [first] = runs;
  if (!first) return null;
  const since = first.created ? (
    <>
      {" "}
      since <Moment time={first.created} /> (<Since from={first.created} />)
    </>
  ) : null;
  return (
    <Notice
      hue="wait"
      icon={Unplug}
      className="mt-3"
      action={
        <Button look="soft" small onClick={() => setOpen(true)}>
          <Terminal size={14} aria-hidden /> Show the command
        </Button>
      }
    >
      No live worker knows <b>{workflow}</b>.{" "}
      {runs.length === 1 ? (
        <>
          One run,{" "}
          <Link to={`/runs/${encodeURIComponent(first.run)}`} className="link">
            <code>{shortId(first.run)}</code>
          </Link>
          , has not been started{since}.
        </>
      ) : (
        <>
          <Link to={`/?${queryOf({ ...NOTHING, workflow, status: ["created"], children: true })}`} className="link">
            {count(runs.length)} runs
          </Link>{" "}
          have not been started, the first one{since}.
        </>
      )}
      <Command run={first.run} workflow={workflow} open={isOpen} onClose={() => setOpen(false)} />
    </Notice>
  );
}

function Command({
  run,
  workflow,
  open,
  onClose,
}: {
  run: string;
  workflow: string;
  open: boolean;
  onClose: () => void;
}) {
  const workers = useWorkers().data?.workers.filter((worker) => worker.live) ?? [];
  const entry = useQuery({
    queryKey: keys.run(run),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}", { params: { path: { run } }, signal })),
    enabled: open,
  }).data?.entry;
  const module = entry?.split(":")[0];
  return (
    <Dialog open={open} onClose={onClose} title={`Start a worker that has the code of ${workflow}`}>
      <p className="text-text-2">
        {workers.length
          ? `${count(workers.length)} ${workers.length === 1 ? "worker is" : "workers are"} alive; ${workers.length === 1 ? "it does not know" : "none of them knows"} this workflow.`
          : "No worker is alive."}{" "}
        Run this in the project that has it
        {entry ? (
          <>
            , at <code>{entry}</code>
          </>
        ) : null}
        :
      </p>
      <p className="mt-3 rounded-control bg-code px-3 py-2">
        <CopyId id={`outlast worker ${module ?? workflow}`} shown={`outlast worker ${module ?? "MODULE"}`} />
      </p>
    </Dialog>
  );
}
