import type { ReactNode } from "react";

/** A bordered surface, with a heading and what belongs to it at the right. */
export function Panel({
  title,
  note,
  end,
  children,
  className = "",
}: {
  title?: ReactNode;
  note?: ReactNode;
  end?: ReactNode;
  children: ReactNode;
  className?: string;
}) {
  return (
    <section className={`min-w-0 rounded-panel border border-line bg-surface ${className}`}>
      {title ? (
        <header className="flex min-h-11 items-center gap-2 border-b border-line px-4 py-2.5 max-md:flex-wrap">
          <h2 className="font-semibold">{title}</h2>
          {note ? <span className="text-meta text-text-2">{note}</span> : null}
          {end ? <div className="ml-auto flex items-center gap-2">{end}</div> : null}
        </header>
      ) : null}
      {children}
    </section>
  );
}
