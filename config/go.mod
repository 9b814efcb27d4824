module github.com/sluicegate/sluice/config

go 1.26.0

require (
	github.com/sluicegate/sluice v0.0.0
	go.yaml.in/yaml/v4 v4.0.0
)

replace github.com/sluicegate/sluice => ..
