"""Vector stores: files, indexed and searched.

Begin with `kept`, the records, and `searcher`, which fulfils `retrieval.searching.StoreSearch`. `queue` and `indexing` put files
into the indexes of `retrieval` in the background; `opening` says where those lie; `handlers` and `file_handlers` have the routes.
"""
