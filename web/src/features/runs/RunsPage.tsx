import { PageHeading } from "@/ui/PageHeading";

export default function RunsPage() {
  return <PageHeading title="Runs" />;
}
