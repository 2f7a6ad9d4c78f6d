import { type ReactNode, useEffect } from "react";

/** The title of a page, in it and in the browser's tab, with what belongs to it at the right. */
export function PageHeading({ title, beside, end }: { title: string; beside?: ReactNode; end?: ReactNode }) {
  usePageTitle(title);
  return (
    <div className="flex min-h-(--control) flex-wrap items-center gap-x-5 gap-y-2">
      <h1 className="text-title font-semibold">{title}</h1>
      {beside ? (
        <div className="min-w-0 max-md:order-last max-md:-mx-4 max-md:w-screen max-md:overflow-x-auto max-md:px-4 max-md:[scrollbar-width:none]">
          {beside}
        </div>
      ) : null}
      {end ? <div className="ml-auto flex items-center gap-2">{end}</div> : null}
    </div>
  );
}

export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} - Outlast`;
  }, [title]);
}
