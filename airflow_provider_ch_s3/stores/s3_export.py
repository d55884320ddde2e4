"""S3 as the destination of exports: the small objects that make a prefix complete."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

from airflow_provider_ch_s3.errors import SourceError
from airflow_provider_ch_s3.protocols import SmallObject
from airflow_provider_ch_s3.stores.change import ChangedError
from airflow_provider_ch_s3.stores.s3 import S3FileStore


class S3ExportStore(S3FileStore):
    """The prefixes of one S3 endpoint; arguments as those of :class:`S3FileStore`."""

    cannot = "cannot"

    def read(self, bucket: str, key: str) -> SmallObject | None:
        """Read a small object; None if there is none.

        :raises SourceError: if the store refuses.
        """
        try:
            answer = self._client.get_object(Bucket=bucket, Key=key)
            return SmallObject(body=answer["Body"].read(), etag=answer["ETag"].strip('"'))
        except (BotoCoreError, ClientError) as error:
            if isinstance(error, ClientError) and error.response.get("Error", {}).get("Code") == "NoSuchKey":
                return None
            raise SourceError(
                f"cannot read {key!r} in bucket {bucket!r} with {self._who}: {error}; it tells whether an export is"
                " complete: allow these credentials to read and list there (s3:GetObject, s3:ListBucket)"
            ) from error

    def write(self, bucket: str, key: str, body: bytes, *, instead_of: SmallObject | None) -> bool:
        """Write a small object if the one that is there is still the given one; returns whether it was.

        :raises SourceError: if the store refuses.
        """
        condition = {"IfMatch": f'"{instead_of.etag}"'} if instead_of else {"IfNoneMatch": "*"}
        with self._changing("write", bucket, key) as change:
            if self.read(bucket, key) != instead_of:  # for stores that do not know the condition
                raise ChangedError
            self._client.put_object(Bucket=bucket, Key=key, Body=body, **condition)
        return change.is_done
