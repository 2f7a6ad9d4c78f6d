import { PageHeading } from "@/ui/PageHeading";

export default function RunPage() {
  return <PageHeading title="Run" />;
}
