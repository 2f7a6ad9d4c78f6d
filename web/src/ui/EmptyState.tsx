import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";

/** What is said where a list would be: what there is not, why, and what one can do. */
export function EmptyState({
  icon: Icon,
  title,
  children,
  action,
  isPage,
}: {
  icon: LucideIcon;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  /** It stands for the whole page: its title is the heading. */
  isPage?: boolean;
}) {
  const Title = isPage ? "h1" : "p";
  return (
    <div className="flex flex-col items-start gap-1 px-4 py-6">
      <Icon size={16} aria-hidden className="mb-1 text-text-2" />
      <Title className="font-semibold">{title}</Title>
      {children ? <div className="text-text-2">{children}</div> : null}
      {action ? <div className="mt-2 flex flex-wrap gap-2">{action}</div> : null}
    </div>
  );
}
