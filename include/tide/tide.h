/* tide.h: all of Tidepool. GPU arrays whose memory a garbage collector looks after. */
#ifndef TIDE_H
#define TIDE_H

#include <tide/base.h>
#include <tide/runtime.h>
#include <tide/reclaim.h>
#include <tide/device.h>
#include <tide/pool.h>
#include <tide/array.h>
#include <tide/index.h>
#include <tide/memory.h>
#include <tide/expr.h>
#include <tide/graph.h>
#include <tide/ops.h>
#include <tide/order.h>
#include <tide/shape.h>
#include <tide/linalg.h>
#include <tide/scan.h>
#include <tide/select.h>
#include <tide/random.h>
#include <tide/adapt.h>
#include <tide/batches.h>
#include <tide/collector.h>
#include <tide/policy.h>

#endif
