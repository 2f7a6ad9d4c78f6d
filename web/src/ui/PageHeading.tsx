import { type ReactNode, useEffect } from "react";

/** The title of a page, in it and in the browser's tab, with what belongs to it at the right. */
export function PageHeading({ title, beside, end }: { title: string; beside?: ReactNode; end?: ReactNode }) {
  usePageTitle(title);
  return (
    <div className="flex min-h-(--control) flex-wrap items-center gap-x-5 gap-y-2">
      <h1 className="text-title font-semibold">{title}</h1>
      {beside}
      {end ? <div className="ml-auto flex items-center gap-2">{end}</div> : null}
    </div>
  );
}

export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} - Outlast`;
  }, [title]);
}
