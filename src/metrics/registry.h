#pragma once
// The program's metrics, for Prometheus: prometheus-cpp behind one object that is passed along,
// never a global.

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft {

// Thread-safe. Metrics live as long as the registry; each has the label model_name and those given.
class MetricsRegistry {
 public:
  // prefix: "weft:" or "vllm:"; it stands before every name.
  MetricsRegistry(std::string prefix, std::string model_name);

  using Labels = std::map<std::string, std::string>;
  prometheus::Counter& counter(const std::string& name, const std::string& help,
                               const Labels& labels = {});
  prometheus::Gauge& gauge(const std::string& name, const std::string& help,
                           const Labels& labels = {});
  prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                   const std::vector<double>& buckets, const Labels& labels = {});

  // The text exposition format, version 0.0.4.
  std::string expose() const;

 private:
  Labels with_model(const Labels& labels) const;
  std::string prefix_;
  std::string model_name_;
  std::shared_ptr<prometheus::Registry> registry_;
};

}  // namespace weft
