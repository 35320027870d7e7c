print((require "tidepool").help())
