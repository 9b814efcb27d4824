module github.com/sluicegate/sluice/tests

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/dunglas/httpsfv v1.1.2
	github.com/sluicegate/sluice v0.0.0
	github.com/sluicegate/sluice/config v0.0.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/sluicegate/sluice => ..

replace github.com/sluicegate/sluice/config => ../config

replace github.com/sluicegate/sluice/metrics => ../metrics

replace github.com/sluicegate/sluice/grpclimit => ../grpclimit

replace github.com/sluicegate/sluice/redisstore/goredis => ../redisstore/goredis
