import { Hand } from "lucide-react";
import { Link } from "react-router";
import { Button } from "@/ui/Button";
import { QuestionHead, useRunDetail } from "./QuestionHead";
import type { Item } from "./questions";

/** A run that is held: what is known, and the way to decide. */
export function HeldRun({ item }: { item: Item }) {
  const error = useRunDetail(item.run).data?.error;
  return (
    <>
      <QuestionHead item={item} />
      <div className="px-4 py-3">
        <p className="break-words">{error?.message || item.text}</p>
        <p className="mt-1 text-text-2">
          Check what happened outside before you decide. The run has the decisions that are possible, each with its dry
          run.
        </p>
        <div className="mt-3 flex flex-wrap gap-2">
          <Button look="primary" asChild>
            <Link to={`/runs/${item.run}`}>
              <Hand size={16} aria-hidden /> Decide in the run…
            </Link>
          </Button>
        </div>
      </div>
    </>
  );
}
