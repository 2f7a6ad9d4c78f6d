import type { ReactNode } from "react";
import { counted } from "@/model/durations";
import { cutName } from "@/model/names";
import type { Snapshot } from "@/model/snapshot";
import { DryRun } from "@/ui/DryRun";
import { ActionRow } from "../actions/ActionRow";
import { useRun } from "./context";

/** What to do now, in words, the actions, and the dry run of the first of them. */
export function Advice({ shown }: { shown: Snapshot }) {
  const { detail } = useRun();
  const useful = detail.actions.find((action) => action.useful && action.action !== "repair");
  const appends = useful?.appends;
  return (
    <>
      <p>
        <Words shown={shown} />
      </p>
      <ActionRow detail={detail} />
      {appends?.length && useful && isAsked(useful.action) ? (
        <div className="mt-2">
          <DryRun events={appends} effects={useful.effects} after={detail.at} />
        </div>
      ) : null}
    </>
  );
}

/** Whether an action needs nothing more than the press: then its dry run is shown at once. */
const isAsked = (action: string): boolean => action === "start" || action === "resume" || action === "jump";

function Words({ shown }: { shown: Snapshot }): ReactNode {
  const { detail } = useRun();
  const { status, failed, doneNodes } = shown;
  const kept = doneNodes
    ? `; ${doneNodes === 1 ? "the completed node is" : `the ${counted(doneNodes, "completed node")} are`} kept`
    : "";
  if (shown.held) {
    if (shown.error?.kind === "outlast.node_interrupted" && failed)
      return (
        <>
          <b>Check whether {cutName(failed.node)} took effect.</b> Then do it again, or give its result.
        </>
      );
    return (
      <>
        <b>Decide how it continues.</b> Nothing is done until then.
      </>
    );
  }
  switch (status) {
    case "created":
      if (detail.awaits_start) return <b>Start it when it may begin.</b>;
      return detail.known_by.length ? (
        <>
          <b>Nothing has to be done.</b> A worker that knows it starts it.
        </>
      ) : (
        <b>Start a worker that has its code.</b>
      );
    case "waiting":
      return shown.waits.some((wait) => wait.kind === "interaction") ? (
        <>
          <b>Answer.</b> The run continues at once.
        </>
      ) : (
        <>
          <b>Nothing has to be done.</b> It continues by itself.
        </>
      );
    case "paused":
      return (
        <>
          <b>Resume it</b> when it may continue{kept}.
        </>
      );
    case "failed":
      return shown.recoverable ? (
        <>
          <b>Resume once the cause is gone.</b>{" "}
          {failed ? `Only ${cutName(failed.node)} is done again` : "It continues where it failed"}
          {kept}.
        </>
      ) : (
        <>
          <b>It failed for good.</b> Retry a node, or go back to an earlier place and continue from there.
        </>
      );
    case "completed":
    case "cancelled":
      return (
        <>
          <b>There is nothing to do.</b> You can go back to any earlier place; what was done stays on its branch.
        </>
      );
    default:
      return detail.holder && !detail.holder.live ? (
        <>
          <b>Nobody works on it.</b> The next worker that knows {detail.workflow} takes it over.
        </>
      ) : (
        <>
          <b>Nothing has to be done.</b>{" "}
          {shown.working.some((node) => node.crashes) ? "Lost attempts are repeated by themselves." : ""}
        </>
      );
  }
}
