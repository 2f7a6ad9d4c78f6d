import { useQuery } from "@tanstack/react-query";
import { GitBranch, GitCompare } from "lucide-react";
import { useState } from "react";
import { Link } from "react-router";
import { answer, api, type View } from "@/api/client";
import { keys, useMay } from "@/api/queries";
import { counted } from "@/model/durations";
import { Button } from "@/ui/Button";
import { TickBox } from "@/ui/Field";
import { LoadError } from "@/ui/LoadError";
import { Moment, ZoneNote } from "@/ui/Moment";
import { Panel } from "@/ui/Panel";
import { Skeleton } from "@/ui/Skeleton";
import { StatusBadge, statusOf } from "@/ui/StatusBadge";
import { useActions } from "../../actions/store";
import { useRun } from "../context";

type Branch = View<"BranchView">;

/** The branches of the run as a tree. Two of them can be compared. */
export default function Branches() {
  const { run, detail, to } = useRun();
  const mayActivate = useMay("runs:activate");
  const { data, error, refetch } = useQuery({
    queryKey: [...keys.run(run), "branches"],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/runs/{run}/branches", { params: { path: { run } }, signal })),
  });
  const [picked, setPicked] = useState<number[]>([]);
  const [left, right] = picked.length === 2 ? [...picked].sort((a, b) => a - b) : [];
  if (!data) return error ? <LoadError what="The branches" error={error} retry={() => void refetch()} /> : <Skeleton />;
  const tree = treeOf(data.branches);
  const isOne = tree.length === 1;
  return (
    <Panel
      title="Branches"
      note={
        isOne
          ? "The run has one line of history."
          : "Going back opens a branch; what was done before stays on the older one."
      }
      end={
        isOne ? null : (
          <>
            <span className="text-meta text-text-2 max-md:hidden" role="status">
              {picked.length < 2 ? "Pick two to compare them." : `Branches ${left} and ${right} are picked.`}
            </span>
            {left !== undefined && right !== undefined ? (
              <Button look="primary" asChild>
                <Link to={compareAddress(run, left, right)}>
                  <GitCompare size={16} aria-hidden /> Compare
                </Link>
              </Button>
            ) : (
              <Button disabled title="Pick two branches first">
                <GitCompare size={16} aria-hidden /> Compare
              </Button>
            )}
          </>
        )
      }
    >
      <ul aria-label="Branches">
        {tree.map(({ branch, depth }) => (
          <li key={branch.branch} className="border-line px-4 py-2.5 not-first:border-t">
            <div className="flex items-start gap-3 max-md:flex-wrap" style={{ paddingLeft: Math.min(depth, 8) * 20 }}>
              {isOne ? null : (
                <TickBox
                  label={`Pick branch ${branch.branch}`}
                  checked={picked.includes(branch.branch)}
                  onChange={(isOn) =>
                    setPicked((before) =>
                      isOn ? [...before, branch.branch].slice(-2) : before.filter((each) => each !== branch.branch),
                    )
                  }
                />
              )}
              <GitBranch size={16} aria-hidden className={`mt-0.5 flex-none ${branch.current ? "" : "text-undo"}`} />
              <div className="min-w-0 flex-1">
                <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
                  <Link
                    to={to({ tab: "events", branch: branch.current ? null : branch.branch, event: null, at: null })}
                    className="link font-medium"
                  >
                    Branch {branch.branch}
                    {branch.current ? ", current" : ""}
                  </Link>
                  <StatusBadge status={statusOf(branch)} />
                  <span className="text-text-2">
                    {branch.first === branch.last
                      ? `event ${branch.first}`
                      : `events ${branch.first} to ${branch.last}`}
                    , {counted(branch.nodes, "node")} done
                  </span>
                </p>
                <p className="text-meta text-text-2">
                  <Origin branch={branch} />
                </p>
              </div>
              <div className="flex flex-none flex-wrap gap-2 max-md:basis-full">
                {branch.parent !== null ? (
                  <Button small asChild>
                    <Link to={compareAddress(run, branch.parent, branch.branch)}>
                      <GitCompare size={14} aria-hidden /> With branch {branch.parent}
                    </Link>
                  </Button>
                ) : null}
                {!branch.current && mayActivate && detail.actions.some((action) => action.action === "activate") ? (
                  <Button
                    small
                    onClick={() => useActions.getState().ask({ kind: "activate", run, branch: branch.branch })}
                  >
                    Go on from here…
                  </Button>
                ) : null}
              </div>
            </div>
          </li>
        ))}
      </ul>
      <p className="border-t border-line px-4 py-2 text-meta text-text-3">
        <ZoneNote />
      </p>
    </Panel>
  );
}

const CAUSES: Record<string, string> = {
  jump: "gone back",
  retry: "a node done again",
  recovery: "recovered",
  migrate: "moved to other code",
  activate: "continued from an older branch",
};

/** Where the branch began, why and by whom. */
function Origin({ branch }: { branch: Branch }) {
  if (branch.parent === null)
    return (
      <>
        The start of the run, <Moment time={branch.opened} />
      </>
    );
  return (
    <>
      Opened <Moment time={branch.opened} /> {branch.cutoff ? `after event ${branch.cutoff}` : "at the start"} of branch{" "}
      {branch.parent}: {CAUSES[branch.cause ?? ""] ?? branch.cause}
      {branch.by ? ` by ${branch.by}` : ""}
      {branch.reason ? `, “${branch.reason}”` : ""}
    </>
  );
}

export const compareAddress = (run: string, left: number, right: number): string =>
  `/runs/${encodeURIComponent(run)}/compare?left=${left}&right=${right}`;

/** Each branch below the one it left, in the order they opened. */
function treeOf(branches: readonly Branch[]): { branch: Branch; depth: number }[] {
  const found: { branch: Branch; depth: number }[] = [];
  const add = (parent: number | null, depth: number) => {
    for (const branch of branches)
      if (branch.parent === parent) {
        found.push({ branch, depth });
        add(branch.branch, depth + 1);
      }
  };
  add(null, 0);
  return found;
}
