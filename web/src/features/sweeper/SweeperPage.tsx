import { PageHeading } from "@/ui/PageHeading";

export default function SweeperPage() {
  return <PageHeading title="Sweeper" />;
}
