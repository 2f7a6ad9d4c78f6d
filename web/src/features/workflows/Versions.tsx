import { useQuery } from "@tanstack/react-query";
import { GitCompare } from "lucide-react";
import { useSearchParams } from "react-router";
import { answer, api } from "@/api/client";
import { keys } from "@/api/queries";
import { counted } from "@/model/durations";
import { Button } from "@/ui/Button";
import { CopyId } from "@/ui/CopyId";
import { LoadError } from "@/ui/LoadError";
import { Moment } from "@/ui/Moment";
import { Panel } from "@/ui/Panel";
import { Skeleton } from "@/ui/Skeleton";
import { CELL, Table } from "@/ui/Table";

const short = (version: string): string => version.slice(0, 8);

/** The versions that runs are of, and how an older one differs from the one used last. */
export function Versions({ name, current }: { name: string; current: string | undefined }) {
  const [params, setParams] = useSearchParams();
  const found = useQuery({
    queryKey: [...keys.workflows, name, "versions"],
    queryFn: ({ signal }) =>
      answer(api.GET("/api/v1/workflows/{workflow}/versions", { params: { path: { workflow: name } }, signal })),
  });
  const versions = found.data?.versions;
  const newest = versions?.[0];
  if (!versions || !newest) return null;
  const old = versions.find((version) => version.version === params.get("version"));
  const show = (version: string) => {
    const changed = new URLSearchParams(params);
    if (version) changed.set("version", version);
    else changed.delete("version");
    setParams(changed, { replace: true });
  };
  return (
    <Panel className="mt-4 overflow-hidden" title="Versions" note="the one used last first">
      <Table label="Versions" columns={["Version", "Runs", "First run", "Last run", "Use"]}>
        {versions.map((version) => (
          <tr key={version.version}>
            <td className={CELL}>
              <CopyId id={version.version} shown={short(version.version)} />
            </td>
            <td className={CELL} data-label="Runs">
              {counted(version.runs, "run")}
            </td>
            <td className={CELL} data-label="First run">
              <Moment time={version.first} />
            </td>
            <td className={CELL} data-label="Last run">
              <Moment time={version.last} />
            </td>
            <td className={`${CELL} text-text-2`}>
              {version.version === current ? "runs start with it" : null}
              {version === newest ? null : (
                <Button
                  small
                  aria-expanded={version === old}
                  onClick={() => show(version === old ? "" : version.version)}
                >
                  <GitCompare size={14} aria-hidden /> {version === old ? "Hide the difference" : "Compare"}
                </Button>
              )}
            </td>
          </tr>
        ))}
      </Table>
      {old && old !== newest ? <Difference name={name} old={old.version} newest={newest.version} /> : null}
    </Panel>
  );
}

function Difference({ name, old, newest }: { name: string; old: string; newest: string }) {
  const found = useQuery({
    queryKey: [...keys.workflows, name, "diff", old, newest],
    queryFn: ({ signal }) => {
      const params = { query: { old, new: newest } };
      return answer(api.GET("/api/v1/versions/diff", { params, signal }));
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!found.data)
    return found.error ? (
      <LoadError what="The difference" error={found.error} retry={() => void found.refetch()} />
    ) : (
      <Skeleton />
    );
  const lines = found.data.diff.replace(/\n$/, "").split("\n").slice(2);
  return (
    <section aria-label="Difference" className="border-t border-line px-4 py-3">
      <p className="mb-2 text-text-2">
        From <code>{short(old)}</code> to <code>{short(newest)}</code>
      </p>
      {found.data.diff ? (
        <pre tabIndex={0} className="max-h-120 overflow-auto rounded-control bg-code py-2">
          {lines.map((line, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines have an order, and may be alike
            <span key={place} className={`block min-w-fit px-3 whitespace-pre ${looks(line)}`}>
              {line || " "}
            </span>
          ))}
        </pre>
      ) : (
        <p>Their code is the same.</p>
      )}
    </section>
  );
}

/** What is new is tinted, what is gone is faint; both keep their mark. */
function looks(line: string): string {
  if (line.startsWith("+")) return "bg-undo-tint text-undo";
  return line.startsWith("-") || line.startsWith("@@") ? "text-text-3" : "";
}
