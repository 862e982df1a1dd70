#include "metrics/registry.h"

#include <prometheus/text_serializer.h>

#include <sstream>
#include <utility>

namespace weft {

MetricsRegistry::MetricsRegistry(std::string prefix, std::string model_name)
    : prefix_(std::move(prefix)),
      model_name_(std::move(model_name)),
      registry_(std::make_shared<prometheus::Registry>()) {}

MetricsRegistry::Labels MetricsRegistry::with_model(const Labels& labels) const {
  Labels all = labels;
  all.emplace("model_name", model_name_);
  return all;
}

// A family that exists is returned again, so one name with several labels is one family.

prometheus::Counter& MetricsRegistry::counter(const std::string& name, const std::string& help,
                                              const Labels& labels) {
  return prometheus::BuildCounter()
      .Name(prefix_ + name)
      .Help(help)
      .Register(*registry_)
      .Add(with_model(labels));
}

prometheus::Gauge& MetricsRegistry::gauge(const std::string& name, const std::string& help,
                                          const Labels& labels) {
  return prometheus::BuildGauge()
      .Name(prefix_ + name)
      .Help(help)
      .Register(*registry_)
      .Add(with_model(labels));
}

prometheus::Histogram& MetricsRegistry::histogram(const std::string& name, const std::string& help,
                                                  const std::vector<double>& buckets,
                                                  const Labels& labels) {
  return prometheus::BuildHistogram()
      .Name(prefix_ + name)
      .Help(help)
      .Register(*registry_)
      .Add(with_model(labels), buckets);
}

std::string MetricsRegistry::expose() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, registry_->Collect());
  return std::move(out).str();
}

}  // namespace weft
