import { useQuery } from "@tanstack/react-query";
import { ChevronRight } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Link } from "react-router";
import { answer, api, type View } from "@/api/client";
import { keys } from "@/api/queries";
import { counted } from "@/model/durations";
import { plainName, shortId } from "@/model/names";
import { oneLine } from "@/model/values";
import { Since } from "@/ui/Duration";
import { JsonView } from "@/ui/JsonView";
import { Moment } from "@/ui/Moment";
import type { Item } from "./questions";

/** The run that asks: its title, how long it has waited, and what it has done. */
export function QuestionHead({ item, children }: { item: Item; children?: ReactNode }) {
  const detail = useRunDetail(item.run).data;
  return (
    <>
      <header className="border-b border-line px-4 py-3">
        <p className="flex flex-wrap items-center gap-1.5 text-meta text-text-2">
          <Link to={`/runs/${item.run}`} className="link" title={item.run}>
            {shortId(item.run)}
          </Link>
          <ChevronRight size={12} aria-hidden />
          <span className="min-w-0 truncate" title={detail?.title}>
            {detail ? detail.title || detail.workflow : "…"}
          </span>
        </p>
        <h2 className="mt-1 text-head font-semibold break-words whitespace-pre-line">{item.text}</h2>
        <p className="text-meta text-text-2">
          {item.since ? (
            <>
              {item.kind === "held" ? "Held" : "Waiting"} for <Since from={item.since} />, since{" "}
              <Moment time={item.since} />.{" "}
            </>
          ) : null}
          {item.due ? (
            <>
              It expires at <Moment time={item.due} />.{" "}
            </>
          ) : null}
          {detail ? `Branch ${detail.branch}.` : null}
        </p>
        {children}
      </header>
      {detail ? <Known detail={detail} /> : null}
    </>
  );
}

export function useRunDetail(run: string) {
  return useQuery({
    queryKey: keys.run(run),
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}", { params: { path: { run } }, signal })),
  });
}

const SHOWN = 4;

/** The outputs of the nodes that were completed last, and the parameters. */
function Known({ detail }: { detail: View<"RunDetailView"> }) {
  const [isAll, setAll] = useState(false);
  const done = detail.nodes.filter((node) => node.status === "completed");
  const shown = isAll ? done : done.slice(-SHOWN);
  const rows: [string, unknown][] = [
    ["Parameters", detail.params],
    ...shown.map((node): [string, unknown] => [plainName(node.node), node.output]),
  ];
  return (
    <div className="border-b border-line bg-sunken px-4 py-2.5">
      <h3 className="text-meta text-text-2">What the run knows so far</h3>
      <dl className="mt-1 grid grid-cols-[minmax(96px,auto)_minmax(0,1fr)] gap-x-4 gap-y-1 max-md:grid-cols-1 max-md:gap-y-0">
        {rows.map(([name, value]) => (
          <Fact key={name} name={name} value={value} />
        ))}
      </dl>
      {done.length > SHOWN && !isAll ? (
        <button type="button" className="link mt-1 text-meta" onClick={() => setAll(true)}>
          Show all {counted(done.length, "node")}
        </button>
      ) : null}
    </div>
  );
}

function Fact({ name, value }: { name: string; value: unknown }) {
  const [isOpen, setOpen] = useState(false);
  const { text, isCut } = oneLine(value, 200);
  return (
    <>
      <dt className="max-w-56 truncate text-text-2" title={name}>
        {name}
      </dt>
      <dd className="min-w-0 max-md:mb-1">
        {isOpen ? <JsonView value={value} name={`${name}.json`} /> : <code className="break-words">{text}</code>}{" "}
        {isCut && !isOpen ? (
          <button type="button" className="link text-meta" onClick={() => setOpen(true)}>
            Show all
          </button>
        ) : null}
      </dd>
    </>
  );
}
