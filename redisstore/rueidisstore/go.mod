module github.com/sluicegate/sluice/redisstore/rueidisstore

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79
	github.com/sluicegate/sluice v0.0.0
)

require golang.org/x/sys v0.48.0 // indirect

replace github.com/sluicegate/sluice => ../..
