import { CircleAlert, FileQuestionMark } from "lucide-react";
import { Link, useLocation, useRouteError } from "react-router";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/EmptyState";
import { PageHeading } from "@/ui/PageHeading";

export function NoSuchPage() {
  const { pathname } = useLocation();
  return (
    <>
      <PageHeading title="No such page" />
      <EmptyState
        icon={FileQuestionMark}
        title={`There is no page at ${pathname}.`}
        action={
          <Button asChild>
            <Link to="/">Show the runs</Link>
          </Button>
        }
      />
    </>
  );
}

/** A fault of the page itself: it says which, so that it can be reported. */
export function PageError() {
  const error = useRouteError();
  const text = error instanceof Error ? error.message : String(error);
  return (
    <EmptyState
      isPage
      icon={CircleAlert}
      title="This page has a fault and cannot be shown."
      action={<Button onClick={() => location.reload()}>Load it again</Button>}
    >
      <code className="break-all">{text}</code>
    </EmptyState>
  );
}
