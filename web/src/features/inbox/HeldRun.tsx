import { Link } from "react-router";
import { ActionDialogs } from "../actions/ActionDialogs";
import { ActionRow } from "../actions/ActionRow";
import { QuestionHead, useRunDetail } from "./QuestionHead";
import type { Item } from "./questions";

/** A run that is held: what is known, and the way to decide. */
export function HeldRun({ item }: { item: Item }) {
  const detail = useRunDetail(item.run).data;
  return (
    <>
      <QuestionHead item={item} />
      <div className="px-4 py-3">
        {detail?.error && detail.error.message !== item.text ? (
          <p className="mb-1 break-words">{detail.error.message}</p>
        ) : null}
        <p className="text-text-2">
          Check what happened outside before you decide. Each decision shows its dry run first.{" "}
          <Link to={`/runs/${item.run}`} className="link">
            Show the story of the run
          </Link>
        </p>
        {detail?.held ? <ActionRow detail={detail} /> : null}
      </div>
      {detail ? <ActionDialogs detail={detail} /> : null}
    </>
  );
}
