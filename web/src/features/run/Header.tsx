import { ChevronRight, GitBranch } from "lucide-react";
import { Link } from "react-router";
import { attributeText, isTime } from "@/model/attributes";
import { duration } from "@/model/durations";
import { CopyId } from "@/ui/CopyId";
import { Moment } from "@/ui/Moment";
import { useNow } from "@/ui/now";
import { addressOf, useRun } from "./context";

const OVER = new Set(["completed", "failed", "cancelled"]);

/** What the run is: where it belongs, its title, and the facts that do not change what has to be done. */
export function Header() {
  const { run, detail, place } = useRun();
  const branches = detail.branch + 1;
  return (
    <header>
      <nav aria-label="Where this is" className="flex items-center gap-1.5 text-meta text-text-2">
        <Link to="/" className="hover:underline">
          Runs
        </Link>
        <ChevronRight size={14} aria-hidden />
        <Link to={`/?workflow=${encodeURIComponent(detail.workflow)}`} className="hover:underline">
          {detail.workflow}
        </Link>
        {detail.parent ? (
          <>
            <ChevronRight size={14} aria-hidden />
            <Link to={addressOf(detail.parent, {})} className="hover:underline">
              child of <code>{detail.parent.length > 24 ? `…${detail.parent.slice(-6)}` : detail.parent}</code>
            </Link>
          </>
        ) : null}
      </nav>
      <h1
        className="mt-1 text-title font-semibold break-words"
        title={detail.title.length > 120 ? detail.title : undefined}
      >
        {(detail.title || run).slice(0, 200)}
      </h1>
      <div className="mt-1 mb-3 flex flex-wrap items-center gap-x-4 gap-y-1 text-meta text-text-2">
        <CopyId id={run} className="text-text" />
        <span>
          version <code title={detail.version}>{detail.version.slice(0, 8) || "none"}</code>
        </span>
        <span className="inline-flex items-center gap-1">
          <GitBranch size={14} aria-hidden /> branch {place.branch ?? detail.branch}
          {branches > 1 ? ` of ${branches}` : ""}
        </span>
        <span>
          created <Moment time={detail.created} />
        </span>
        <Took />
        {detail.queue ? (
          <Link to={`/?queue=${encodeURIComponent(detail.queue)}`} className="hover:underline">
            queue {detail.queue}
          </Link>
        ) : null}
        {detail.priority ? <span>priority {detail.priority}</span> : null}
        {detail.fairness_key ? <span>fairness key {detail.fairness_key}</span> : null}
        {Object.entries(detail.attributes).map(([name, value]) => (
          <Link
            key={name}
            to={`/?attribute=${encodeURIComponent(`${name}=${attributeText(value)}`)}`}
            title={`Runs with ${name}=${attributeText(value)}`}
            className="inline-flex max-w-80 gap-1 rounded-control border border-line bg-surface px-2 py-0.5 hover:bg-hover"
          >
            {name}{" "}
            <span className="truncate text-text">{isTime(value) ? <Moment time={value.time} /> : String(value)}</span>
          </Link>
        ))}
        {detail.tags.map((tag) => (
          <Link
            key={tag}
            to={`/?tag=${encodeURIComponent(tag)}`}
            className="rounded-control border border-line bg-surface px-2 py-0.5 text-text hover:bg-hover"
          >
            {tag}
          </Link>
        ))}
      </div>
    </header>
  );
}

/** From the creation to the end; while the run goes on, it counts. */
function Took() {
  const { detail } = useRun();
  const now = useNow();
  const created = Date.parse(detail.created ?? "");
  if (OVER.has(detail.status) && !detail.held)
    return <span>took {duration(Date.parse(detail.updated ?? "") - created)}</span>;
  return <span className="text-text-3">so far {duration(now - created, { whole: true })}</span>;
}
