import { useInfiniteQuery } from "@tanstack/react-query";
import { CircleAlert, CircleCheck, ScrollText } from "lucide-react";
import { Link, useSearchParams } from "react-router";
import { answer, api, type View } from "@/api/client";
import { useMay, useMe } from "@/api/queries";
import { shortId } from "@/model/names";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { INPUT } from "@/ui/Field";
import { LoadError } from "@/ui/LoadError";
import { Moment, ZoneNote } from "@/ui/Moment";
import { PageHeading } from "@/ui/PageHeading";
import { Skeleton } from "@/ui/Skeleton";
import { CELL, Table } from "@/ui/Table";
import { Segments } from "@/ui/Tabs";

const FILTERS = [
  { name: "by", label: "Who" },
  { name: "subject", label: "Run or token" },
  { name: "address", label: "From" },
] as const;

/** Who changed what, from where, with which result. The filter is in the address. */
export default function AuditPage() {
  const may = useMay("audit:list");
  const role = useMe().data?.role;
  const [params, setParams] = useSearchParams();
  const shown = params.get("show");
  const filter = Object.fromEntries(FILTERS.map(({ name }) => [name, params.get(name) ?? ""]));
  const action = params.get("action");
  const found = useInfiniteQuery({
    queryKey: ["audit", filter, action, shown],
    queryFn: ({ pageParam, signal }) => {
      const query = {
        ...filter,
        limit: 50,
        cursor: pageParam,
        ...(action ? { action: [action] } : {}),
        ...(shown ? { refused: shown === "refused" } : {}),
      };
      return answer(api.GET("/api/v1/audit", { params: { query }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    placeholderData: (before) => before,
    enabled: may,
    staleTime: 0,
  });
  const set = (name: string, value: string) => {
    const changed = new URLSearchParams(params);
    if (value) changed.set(name, value);
    else changed.delete(name);
    setParams(changed, { replace: true });
  };
  if (role && !may)
    return (
      <>
        <PageHeading title="Audit" />
        <p className="mt-3">Your role, {role}, cannot see this. Ask an admin.</p>
      </>
    );
  const entries = found.data?.pages.flatMap((page) => page.entries) ?? [];
  return (
    <>
      <PageHeading title="Audit" />
      <div className="mt-3 flex flex-wrap items-center gap-2">
        {FILTERS.map(({ name, label }) => (
          <input
            key={name}
            aria-label={label}
            placeholder={label}
            defaultValue={params.get(name) ?? ""}
            spellCheck={false}
            onBlur={(event) => set(name, event.target.value.trim())}
            onKeyDown={(event) => event.key === "Enter" && set(name, event.currentTarget.value.trim())}
            className={`${INPUT} max-w-48 max-md:max-w-none`}
          />
        ))}
        <Segments
          label="Which requests"
          value={shown ?? "all"}
          onChange={(value) => set("show", value === "all" ? "" : value)}
          choices={[
            { value: "all", text: "All" },
            { value: "accepted", text: "Accepted" },
            { value: "refused", text: "Refused" },
          ]}
        />
        {action ? (
          <Button small onClick={() => set("action", "")}>
            {words(action)} ✕
          </Button>
        ) : null}
      </div>
      <section className="mt-3 overflow-hidden rounded-panel border border-line bg-surface">
        {!found.data ? (
          found.error ? (
            <LoadError what="The audit" error={found.error} retry={() => void found.refetch()} />
          ) : (
            <Skeleton />
          )
        ) : entries.length ? (
          <Table label="Audit" columns={["When", "Who", "From", "What", "About", "Result"]}>
            {entries.map((entry) => (
              <Row key={entry.id} entry={entry} onAction={() => set("action", entry.action)} />
            ))}
          </Table>
        ) : (
          <EmptyState icon={ScrollText} title="No request matches this filter.">
            Requests that change something are listed here, also if they were refused.
          </EmptyState>
        )}
        {found.hasNextPage ? (
          <div className="border-t border-line px-4 py-2.5">
            <Button busy={found.isFetchingNextPage} busyText="Loading…" onClick={() => void found.fetchNextPage()}>
              Show older
            </Button>
          </div>
        ) : null}
      </section>
      <p className="mt-3 text-meta text-text-3">
        <ZoneNote /> Entries are kept for a year.
      </p>
    </>
  );
}

/** `cancel_run` is read as `cancel run`. */
const words = (action: string): string => action.replaceAll("_", " ");

function Row({ entry, onAction }: { entry: View<"AuditEntryView">; onAction: () => void }) {
  const isRefused = entry.status >= 400;
  const isRun = !/token|session|sign|sweep/.test(entry.action) && !(isRefused && entry.status === 404);
  const Icon = isRefused ? CircleAlert : CircleCheck;
  return (
    <tr>
      <td className={`${CELL} whitespace-nowrap`}>
        <Moment time={entry.time} />
      </td>
      <td className={CELL} data-label="Who">
        {entry.by || <span className="text-text-2">unknown</span>}
        {entry.role ? <span className="text-text-2">, {entry.role}</span> : null}
      </td>
      <td className={CELL} data-label="From">
        <code>{entry.address}</code>
      </td>
      <td className={CELL} data-label="What">
        <button type="button" className="link text-left" onClick={onAction}>
          {words(entry.action)}
        </button>
      </td>
      <td className={CELL} data-label="About">
        {entry.subject ? (
          isRun ? (
            <Link to={`/runs/${entry.subject}`} className="link" title={entry.subject}>
              <code>{shortId(entry.subject)}</code>
            </Link>
          ) : (
            <code title={entry.subject}>{shortId(entry.subject)}</code>
          )
        ) : null}
        {entry.note ? <span className="text-text-2"> {entry.note}</span> : null}
      </td>
      <td className={CELL} data-label="Result">
        <span className={`inline-flex items-start gap-1.5 ${isRefused ? "text-fail" : "text-done"}`}>
          <Icon size={16} aria-hidden className="mt-0.5 flex-none" />
          <span>
            {entry.status} <span className="break-all">{entry.code}</span>
          </span>
        </span>
      </td>
    </tr>
  );
}
