import { useInfiniteQuery } from "@tanstack/react-query";
import { History } from "lucide-react";
import { Link } from "react-router";
import { answer, api } from "@/api/client";
import { keys } from "@/api/queries";
import { shortId } from "@/model/names";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { LoadError } from "@/ui/LoadError";
import { Moment } from "@/ui/Moment";
import { Skeleton } from "@/ui/Skeleton";
import { CELL, Table } from "@/ui/Table";

/** What was decided through the server, the newest first. */
export function Decided() {
  const found = useInfiniteQuery({
    queryKey: [...keys.inbox, "decided"],
    queryFn: ({ pageParam, signal }) =>
      answer(api.GET("/api/v1/inbox/decided", { params: { query: { limit: 50, cursor: pageParam } }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
  if (!found.data)
    return found.error ? (
      <LoadError what="The decisions" error={found.error} retry={() => void found.refetch()} />
    ) : (
      <Skeleton />
    );
  const decisions = found.data.pages.flatMap((page) => page.decisions);
  return (
    <section className="mt-3 overflow-hidden rounded-panel border border-line bg-surface">
      {decisions.length ? (
        <Table label="Decisions" columns={["Question", "Answer", "Run", "By", "When"]}>
          {decisions.map((each) => (
            <tr key={`${each.run} ${each.interaction} ${each.time}`}>
              <td className={`${CELL} font-medium`}>{each.text || each.interaction}</td>
              <td className={CELL} data-label="Answer">
                {each.answer || <span className="text-text-2">in its log</span>}
                {each.comment ? <span className="block break-words text-text-2">“{each.comment}”</span> : null}
              </td>
              <td className={CELL} data-label="Run">
                <Link to={`/${each.interaction ? "runs" : "bulk"}/${each.run}`} className="link" title={each.run}>
                  {shortId(each.run)}
                </Link>
              </td>
              <td className={CELL} data-label="By">
                {each.by}
              </td>
              <td className={`${CELL} whitespace-nowrap`} data-label="When">
                <Moment time={each.time} />
              </td>
            </tr>
          ))}
        </Table>
      ) : (
        <EmptyState icon={History} title="Nothing was decided here yet.">
          Answers that are given on this page or by the API are listed here.
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
  );
}
