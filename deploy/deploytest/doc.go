// Package deploytest tests the files in deploy that other programs read: the rules of
// Prometheus and the dashboards of Grafana. Its tests run promtool, and a Prometheus that
// scrapes a gateway. The package has no code of the product.
package deploytest
