import { FileQuestionMark, Trash2 } from "lucide-react";
import { Link } from "react-router";
import { Problem } from "@/api/client";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { LoadError } from "@/ui/LoadError";
import { Skeleton } from "@/ui/Skeleton";

export const isDeleted = (error: Error | null): boolean => error instanceof Problem && error.status === 410;

/** In place of a run that is not there, not there any more, or not yet. */
export function RunNotLoaded({ run, error, retry }: { run: string; error: Error | null; retry: () => void }) {
  if (isDeleted(error))
    return (
      <EmptyState
        isPage
        icon={Trash2}
        title={`Run ${run} was deleted.`}
        action={
          <Button asChild>
            <Link to="/">Show the runs</Link>
          </Button>
        }
      >
        {(error as Problem).detail.replace(`run ${run} was`, "It was").replace(/[^.!?]$/, "$&.")}
      </EmptyState>
    );
  if (error instanceof Problem && error.status === 404)
    return (
      <EmptyState
        isPage
        icon={FileQuestionMark}
        title={`There is no run ${run} here.`}
        action={
          <Button asChild>
            <Link to="/">Show the runs</Link>
          </Button>
        }
      >
        It may be in another store.
      </EmptyState>
    );
  if (error) return <LoadError what={`The run ${run}`} error={error} retry={retry} />;
  return <Skeleton lines={10} label="Loading the run" />;
}
